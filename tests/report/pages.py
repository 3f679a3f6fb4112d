"""Models to report on, and what a page says, for tests."""

import re
import warnings
from html import unescape
from html.parser import HTMLParser

import numpy as np
from sklearn.datasets import load_digits, make_classification, make_regression
from sklearn.exceptions import ConvergenceWarning

from widemargin import LinearRanker, LinearSVC, LinearSVCCV, LinearSVR, OrdinalSVC

#: attributes by which a page could load something
LOADING = {"src", "srcset", "data", "poster", "background", "action"}


def two_classes():
    """A classifier of two, and rows that it has not seen."""
    X, y = make_classification(300, 8, flip_y=0.1, random_state=0)
    return LinearSVC(loss="hinge", random_state=0).fit(X[:200], y[:200]), X[200:], y[200:]


def ten_classes(**parameters):
    X, y = load_digits(return_X_y=True)
    settings = {"C": 0.01, "loss": "hinge", "solver": "dcd", "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LinearSVC(**settings | parameters).fit(X[:600], y[:600]), X[600:], y[600:]


def ranking():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 5))
    y = np.digitize(X[:, 0] + rng.normal(size=120), [-0.5, 0.5])
    qid = np.repeat(np.arange(12), 10)
    return LinearRanker().fit(X, y, qid=qid), X, y, qid


def ordinal():
    _, X, y, _ = ranking()
    return OrdinalSVC().fit(X, y), X, y


def numbers(loss="epsilon_insensitive"):
    """A regressor, and the rows it was trained on."""
    X, y = make_regression(200, 5, noise=20.0, random_state=0)
    return LinearSVR(loss=loss, quantile=0.8, C=10.0, random_state=0).fit(X, y), X, y


def searched():
    X, y = make_classification(200, 8, flip_y=0.1, random_state=0)
    return LinearSVCCV(Cs=[0.01, 0.1, 1], random_state=0).fit(X, y), X, y


class Page(HTMLParser):
    """A page, read: its words, and the elements it is made of."""

    def __init__(self, path):
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.elements, self.pieces, self.inside = [], [], []
        self.feed(self.source)
        self.text = " ".join(" ".join(self.pieces).split())

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.inside.append(tag)

    def handle_endtag(self, tag):
        self.inside.append("/" + tag)

    def handle_data(self, data):
        if not self.inside or self.inside[-1] not in ("style", "script"):
            self.pieces.append(data)

    def having(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    def tiles(self):
        """Return names and values of the tiles."""
        found = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", self.source)
        return {unescape(name): unescape(value) for name, value in found}

    def loads(self):
        """Return whatever a browser would fetch from elsewhere."""
        outside = [
            value
            for _, attributes in self.elements
            for name, value in attributes.items()
            if name in LOADING or (name.endswith("href") and value not in ("data:,", "#proof"))
        ]
        return outside + re.findall(r"(?:url\(|@import|https?://)[^\s]*", self.source)


def report(model, folder, *rows, **settings):
    """Write a page, and read it."""
    path = folder / "page.html"
    model.report(path, *rows, **settings)
    return Page(path)
