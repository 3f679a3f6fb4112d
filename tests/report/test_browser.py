"""Pages in a real browser: they show, load nothing, fit a phone, and follow dark mode."""

import shutil

import numpy as np
import pytest
from report.pages import numbers, ordinal, ranking, searched, ten_classes, two_classes

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no Chromium")
    with playwright.sync_playwright() as engine:
        chromium = engine.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Paths of pages about all kinds of models."""
    folder = tmp_path_factory.mktemp("pages")

    def early():
        return ten_classes(C=10.0, max_iter=2)

    paths = {}
    for make in (two_classes, ten_classes, ranking, ordinal, numbers, searched, early):
        model, X, y, *qid = make()
        paths[make.__name__] = folder / f"{make.__name__}.html"
        names = [f"a name that is longer than any column {j}" for j in range(X.shape[1])]
        settings = dict(zip(["qid"], qid), feature_names=names)
        model.report(paths[make.__name__], X, y, **settings)
    return paths


def opened(browser, path, **settings):
    """Open a page; return it with all it complained of and all it asked for."""
    tab = browser.new_page(**settings)
    troubles, requests = [], []
    tab.on("console", lambda message: troubles.append(message.text))
    tab.on("pageerror", lambda error: troubles.append(str(error)))
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(path.as_uri())
    return tab, troubles, requests


NAMES = ["two_classes", "ten_classes", "ranking", "ordinal", "searched", "early"]


# What a page holds, asked for all at once: each question is a round trip.
_CONTENTS = """() => {
    const all = (which) => [...document.querySelectorAll(which)];
    const size = (text) => parseFloat(getComputedStyle(text).fontSize);
    return {
        headings: all("h2").filter((h) => h.checkVisibility()).map((h) => h.id),
        warnings: all(".warning").map((p) => p.innerText),
        charts: all("svg.chart").map((svg) => svg.getBoundingClientRect().width).filter(Boolean),
        letters: all("svg.chart text:not([transform])").map(
            (text) => size(text) * text.getScreenCTM().a
        ),
        width: document.documentElement.scrollWidth,
    };
}"""


@pytest.mark.parametrize("name", NAMES)
def test_it_shows_asks_for_nothing_and_fits_a_phone(browser, pages, name):
    tab, troubles, requests = opened(browser, pages[name])
    wide = tab.evaluate(_CONTENTS)
    sections = ["quality", "weights", "proof", "training", "repeat", "details"]
    if name == "searched":
        sections.insert(1, "search")
    assert wide["headings"] == sections
    stops = [words for words in wide["warnings"] if words.startswith("Training stopped early")]
    assert len(stops) == (name == "early")
    assert len(wide["charts"]) >= 3
    assert min(wide["charts"]) > 360

    tab.set_viewport_size({"width": 360, "height": 740})
    narrow = tab.evaluate(_CONTENTS)
    assert narrow["width"] == 360
    assert 300 < min(narrow["charts"]) <= max(narrow["charts"]) < 360
    assert min(narrow["letters"]) >= 9.0  # pixels
    assert troubles == []
    assert [url for url in requests if not url.startswith("data:")] == [pages[name].as_uri()]
    tab.close()


def colours(tab):
    """Return brightness of page and words, and the colour of a curve."""
    page, words, curve = tab.evaluate(
        "() => { const body = getComputedStyle(document.body);"
        " const line = getComputedStyle(document.querySelector('.line.s1'));"
        " return [body.backgroundColor, body.color, line.stroke]; }"
    )
    return [sum(map(int, c[4:-1].split(","))) / 765 for c in (page, words)], curve


def test_dark_mode_is_dark_and_paper_is_not(browser, pages):
    tab, _, _ = opened(browser, pages["two_classes"], color_scheme="light")
    (page, words), light_curve = colours(tab)
    assert page > 0.9
    assert words < 0.3
    tab.emulate_media(color_scheme="dark")
    (page, words), dark_curve = colours(tab)
    assert page < 0.2
    assert words > 0.8
    assert dark_curve != light_curve
    tab.emulate_media(color_scheme="dark", media="print")
    (page, words), print_curve = colours(tab)
    assert page > 0.9
    assert words < 0.3
    assert print_curve == light_curve
    assert tab.pdf(format="A4").startswith(b"%PDF")
    tab.close()


def test_the_slider_counts_what_the_threshold_decides(browser, pages):
    model, X, y = two_classes()
    tab, troubles, _ = opened(browser, pages["two_classes"])
    scores = model.decision_function(X)
    slider = tab.locator(".chooser input[type=range]")
    for place in (0, 20, int(slider.get_attribute("max"))):
        slider.fill(str(place))
        shown = {
            name: tab.locator(f".chooser [data-shows={name}]").inner_text()
            for name in ("exact", "true_positives", "false_negatives", "false_positives")
        }
        above = scores > float(shown["exact"])
        assert int(shown["true_positives"]) == np.sum(above & (y == 1))
        assert int(shown["false_negatives"]) == np.sum(~above & (y == 1))
        assert int(shown["false_positives"]) == np.sum(above & (y == 0))
    tab.locator("[data-cost=false_negative]").fill("5")
    tab.get_by_role("button", name="Cheapest threshold").click()
    cheapest = min(
        np.sum((scores > cut) & (y == 0)) + 5 * np.sum((scores <= cut) & (y == 1))
        for cut in np.append(scores, -np.inf)
    )
    assert int(tab.locator("[data-shows=cost]").inner_text()) == cheapest
    assert troubles == []
    tab.close()


def test_tables_sort(browser, pages):
    tab, troubles, _ = opened(browser, pages["ten_classes"])
    rows = tab.locator("table.sortable tbody tr")
    tab.get_by_role("button", name="Recall").click()

    def recalls():
        return [float(text) for text in rows.locator("td:nth-of-type(2)").all_inner_texts()]

    assert recalls() == sorted(recalls())
    tab.get_by_role("button", name="Recall").click()
    assert recalls() == sorted(recalls(), reverse=True)
    assert tab.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    tab.get_by_role("button", name="Class").click()
    assert rows.locator("th").all_inner_texts() == list("0123456789")
    assert troubles == []
    tab.close()


def test_a_notebook_cell_runs_the_page(browser, tmp_path):
    """In its frame, the policy still lets the page's own script run."""
    model, X, y = two_classes()
    cell = tmp_path / "cell.html"
    cell.write_text(model.report(X=X, y=y)._repr_html_(), encoding="utf-8")
    tab, troubles, _ = opened(browser, cell)
    frame = tab.frame_locator("iframe")
    assert frame.locator("h1").inner_text().startswith("Accuracy ")
    assert frame.locator("[data-shows=f1]").inner_text()
    assert troubles == []
    tab.close()
