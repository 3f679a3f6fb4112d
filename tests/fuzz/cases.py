"""Random problems for fits whose certificates are to be checked, hard ones among them.

A case is a function of two numbers, the seed and its place, and can be written as code.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from blocks import Blocks
from fuzz.parameters import cost, kernel_features, parameters, power, tolerance

import widemargin
from widemargin.solvers.registry import Place, only_for

#: how often each is drawn: what is called, and in which variety
KINDS = {
    "LinearSVC": 10,
    "LinearSVR": 5,
    "LogisticRegression": 4,
    "LinearRanker": 4,
    "MeasureSVC": 4,
    "OrdinalSVC": 2,
    "svm_path": 2,
    "LinearSVCCV": 1,
    "LinearSVC sparse": 4,
    "LinearSVR sparse": 2,
    "LogisticRegression sparse": 2,
    "svm_path sparse": 1,
    "LinearSVCCV sparse": 1,
    "LinearOneClassSVM": 4,
    "LinearSVC labels": 3,
    "LinearSVC features": 2,
    "LinearSVR targets": 1,
    "LinearSVC update": 1,
    "LinearSVR update": 1,
    "LogisticRegression update": 1,
    "LinearSVC scaled": 1,
    "LinearSVR scaled": 1,
    "LogisticRegression scaled": 1,
    "LinearSVCCV path": 1,
    "LogisticRegressionCV": 1,
    "MeasureSVCCV": 1,
}


@dataclass
class Case:
    """A call of `fit`, or of `svm_path`.

    Attributes
    ----------
    kind : str
        One of KINDS: the estimator's name, or "svm_path", and a variety.
    X, y, sample_weight, qid
        As `fit` takes them, X dense.
    layout : {"dense", "csr", "disk"}
        How X is given; rows on disk are in memory, and pretend.
    y_layout : {"dense", "csr", "sets"}
        How a matrix of labels is given.
    features : tuple of (str, dict) or None
        The class of kernel features that take the place of X, and its parameters.
    parameters : dict
    small : bool
        Whether working sets of rows are small, so that labels of few rows are trained so.
    first : dict or None
        Parameters of an earlier fit that this one starts from.
    n_first : int or None
        How many rows an earlier fit had, to which `update` adds the others.
    gentle : bool
        Whether all numbers are of a usual size.
    """

    kind: str
    X: np.ndarray
    y: np.ndarray | None
    parameters: dict
    sample_weight: np.ndarray | None = None
    qid: np.ndarray | None = None
    layout: str = "dense"
    y_layout: str = "dense"
    features: tuple[str, dict] | None = None
    small: bool = False
    first: dict | None = None
    n_first: int | None = None
    gentle: bool = False
    name: str = field(default="", compare=False)

    @property
    def estimator(self) -> str:
        """What is called: the name of a class, or "svm_path"."""
        return self.kind.split(" ")[0]

    @property
    def training(self) -> dict:
        """Parameters of each training, of a search, too."""
        return self.parameters | self.parameters.get("parameters", {})

    @cached_property
    def matrix(self) -> np.ndarray:
        """The numbers of the problem: X, or its features; and one that makes the intercept."""
        if self.constant is not None:
            column = np.full((len(self.X), 1), self.constant, dtype=self.X.dtype)
            return np.hstack([self.X, column])
        if self.features is None:
            return self.X
        in_memory = self.features[1] | {"memory_budget": None}
        X = sp.csr_matrix(self.X) if self.layout == "csr" else self.X
        return self._map(**in_memory).fit_transform(X)

    @property
    def constant(self) -> float | None:
        """The value of a feature whose weight is the intercept, as it is in X."""
        scaling = self.parameters.get("intercept_scaling")
        return None if scaling is None else float(self.X.dtype.type(scaling))

    @property
    def _map(self):
        return getattr(widemargin, self.features[0])

    @property
    def data(self) -> dict:
        """X and what else belongs to the rows, by name."""
        X = {"dense": np.asarray, "csr": sp.csr_matrix, "disk": Blocks}[self.layout](self.X)
        if self.features is not None:
            X = self._map(**self.features[1]).fit_transform(X)
        y = {"dense": lambda y: y, "csr": sp.csr_matrix, "sets": _sets}[self.y_layout](self.y)
        given = {"X": X, "y": y, "sample_weight": self.sample_weight, "qid": self.qid}
        return {name: value for name, value in given.items() if value is not None}

    def code(self) -> str:
        """Return what can be pasted into a test to have the same fit again."""
        title = f"# {self.name}"
        if self.small:
            title += ", with the small working sets of fuzz/fits.py"
        lines = [
            title,
            "import numpy as np",
            f"from widemargin import {self.estimator}",
        ]
        X = _array(self.X)
        if self.layout == "csr":
            lines.insert(2, "import scipy.sparse as sp")
            X = f"sp.csr_matrix({X})"
        elif self.layout == "disk":
            lines.insert(2, "from blocks import Blocks")
            X = f"Blocks({X})"
        lines.append(f"X = {X}")
        if self.features is not None:
            name, parameters = self.features
            lines[2:2] = [f"from widemargin import {name}"]
            lines.append(f"X = {name}(**{parameters}).fit_transform(X)")
        given = {"y": self.y, "sample_weight": self.sample_weight, "qid": self.qid}
        others = [name for name, value in given.items() if value is not None]
        lines += [f"{name} = {_array(given[name])}" for name in others]
        if self.y_layout == "csr":
            lines += ["import scipy.sparse as sp", "y = sp.csr_matrix(y)"]
        elif self.y_layout == "sets":
            lines.append("y = [set(np.flatnonzero(row).tolist()) for row in y]")
        call = ", ".join(["X", *(name if name == "y" else f"{name}={name}" for name in others)])
        if self.kind == "LinearSVCCV path":
            lines[2:2] = ["from widemargin import certify_path"]
        if self.estimator == "svm_path":
            lines.append(f"path = svm_path({call}, **{self.parameters})")
            return "\n".join(lines)
        fit = f".fit({call})"
        if self.n_first is not None:
            lines.append(f"k = {self.n_first}")
            lines.append(f"model = {self.estimator}(**{self.parameters})")
            lines.append(f"model.fit({', '.join(f'{each}[:k]' for each in call.split(', '))})")
            lines.append(f"model.update({call})")
        elif self.first is None:
            lines.append(f"model = {self.estimator}(**{self.parameters}){fit}")
        else:
            lines.append(f"model = {self.estimator}(**{self.first}){fit}")
            lines.append(f"model.set_params(**{self.parameters}){fit}")
        if self.kind == "LinearSVCCV path":
            lines.append(f"print(certify_path(model, {call}, max_added=4))")
        lines.append("print(model.status_, model.certificate_)")
        return "\n".join(lines)


def _sets(Y):
    return [set(np.flatnonzero(row).tolist()) for row in Y]


def _array(values) -> str:
    return f"np.array({values.tolist()!r}, dtype=np.{values.dtype})"


def random_case(seed: int, place: int, kind: str | None = None) -> Case:
    """Return the case of this seed at this place, of a random kind if none is given."""
    random = np.random.default_rng([seed, place])
    drawn = random.choice(list(KINDS), p=np.array(list(KINDS.values())) / sum(KINDS.values()))
    kind = kind or str(drawn)
    gentle = bool(random.random() < 0.3)
    estimator, _, variety = kind.partition(" ")
    X = _rows(random, gentle, 20 if variety == "sparse" else 10)
    if estimator == "LinearOneClassSVM" and random.random() < 0.7:
        X = _from_the_origin(random, X)
    case = Case(
        kind,
        X,
        _y(random, kind, X, gentle),
        parameters(random, kind, gentle),
        sample_weight=_weights(random, len(X), gentle),
        layout=str(random.choice(["dense", "csr"])),
        gentle=gentle,
        name=f"seed {seed}, case {place}",
    )
    if variety == "path" and case.y.max() > 1 and case.parameters["fit_intercept"]:
        case.parameters["penalized_intercept"] = True  # a free one could be any number
    if variety == "update":
        case.n_first = int(random.integers(2, len(X) + 1))
    if variety == "labels":
        case.y_layout = str(random.choice(["dense", "csr", "sets"]))
        case.small = bool(random.random() < 0.5)
    elif variety == "features":
        case.features = kernel_features(random, gentle)
    of_measure = case.parameters.get("measure", "error") != "error"
    if of_measure and case.sample_weight is not None:
        case.sample_weight = np.minimum(np.ceil(case.sample_weight), 4.0)
    if (estimator == "LinearRanker" or of_measure) and random.random() < 0.5:
        case.qid = random.integers(0, 1 + len(X) // 4, len(X))
    if kind in ("LogisticRegression", "LinearOneClassSVM") and random.random() < 0.1:
        case.layout, case.X = "disk", X.astype(np.float32)
        solvers = ["auto", "newton"] if kind == "LogisticRegression" else ["auto"]
        case.parameters["solver"] = str(random.choice([*solvers, "ocas"]))
    if kind in ("LinearSVC", "LinearSVR") and random.random() < 0.1:
        case.layout, case.X = "disk", X.astype(np.float32)
        two_classes = case.parameters.get("multi_class") != "crammer_singer"
        solvers = [*(only_for(Place.DISK) if two_classes else ()), "ocas", "cpa"]
        case.parameters["solver"] = str(random.choice(solvers))
    may_start_warm = estimator != "svm_path" and not estimator.endswith("CV")
    may_start_warm &= case.n_first is None
    if may_start_warm and random.random() < 0.15:
        case.first = case.parameters | {"warm_start": True}
        if estimator == "LinearOneClassSVM":
            case.first["nu"] = float(random.uniform(0.1, 1.0))
        else:
            case.first["C"] = cost(random, gentle)
        case.parameters["warm_start"] = True
        case.parameters["tol"] = tolerance(random)
    return case


def _y(random, kind, X, gentle):
    estimator, _, variety = kind.partition(" ")
    if variety == "labels":
        return _label_matrix(random, len(X))
    if variety == "targets":
        k = int(random.integers(2, 4))
        return np.column_stack([_targets(random, X, gentle) for _ in range(k)])
    if estimator == "LinearOneClassSVM":
        return None
    if estimator == "LinearSVR":
        return _targets(random, X, gentle)
    return _labels(random, estimator, len(X))


def _from_the_origin(random, X):
    """Move rows to one side of the origin, as far as they are large, or farther."""
    way = random.standard_normal(X.shape[1])
    far = float(np.abs(X).max(initial=0.0)) * power(random, -0.5, 2)
    return np.clip(X + far * way, -1e30, 1e30).astype(X.dtype)


def _rows(random, gentle, most_features=10):
    n, d = int(random.integers(2, 41)), int(random.integers(1, 1 + most_features))
    dtype = random.choice([np.float32, np.float64])
    X = random.standard_normal((n, d))
    style = random.random()
    if style < 0.2:
        X = np.round(X)
    elif style < 0.4:
        X *= random.random((n, d)) < 0.3
    if random.random() < 0.2:
        X[n // 2 :] = X[: n - n // 2]
    if random.random() < 0.1:
        X[random.integers(n)] = 0.0
    if random.random() < 0.1:
        X[:, random.integers(d)] = 0.0
    if gentle:
        return X.astype(dtype)
    if random.random() < 0.4:
        X *= power(random, -30, 30)
    if random.random() < 0.3:
        X[:, random.integers(d)] *= power(random, -30, 30)
    if random.random() < 0.2:
        X[random.integers(n)] *= power(random, -30, 30)
    if random.random() < 0.2:
        X[:, random.integers(d)] = random.choice([1.0, 1e3, 1e8, 1e16, power(random, -30, 30)])
    if random.random() < 0.15:
        X[:, random.integers(d)] += random.choice([1e3, 1e8, 1e16])
    if random.random() < 0.1:
        X += random.choice([1e2, 1e6])
    return np.clip(X, -1e30, 1e30).astype(dtype)


def _targets(random, X, gentle):
    """Return targets that X explains in part, or not at all."""
    n, d = X.shape
    y = random.standard_normal(n)
    if random.random() < 0.5:
        y += X.astype(np.float64) / max(1e-300, float(np.abs(X).max())) @ random.standard_normal(d)
    if random.random() < 0.2:
        y = np.round(y)
    if gentle:
        return y
    if random.random() < 0.3:
        y *= power(random, -30, 30)
    if random.random() < 0.2:
        y += random.choice([1e3, 1e8, 1e16])
    if random.random() < 0.1:
        y[random.integers(n)] *= power(random, 0, 20)
    if random.random() < 0.05:
        y[:] = y[0]
    return y


def _labels(random, estimator, n):
    if estimator == "LinearRanker" and random.random() < 0.5:
        return random.standard_normal(n)
    two = random.random() < 0.6 or estimator.startswith("MeasureSVC")
    n_classes = 2 if two else int(random.integers(3, 6))
    y = random.integers(0, n_classes, n)
    y[0], y[1] = 0, 1
    return y


def _label_matrix(random, n):
    """Return zeros and ones, (n, k), with labels that few rows have, none, or all."""
    k = int(random.integers(2, 6))
    Y = (random.random((n, k)) < random.choice([0.05, 0.3, 0.5, 0.9], k)).astype(np.int64)
    Y[0, 0], Y[1, 0], Y[0, 1] = 1, 0, 1
    return Y


def _weights(random, n, gentle):
    style = random.random()
    if style < 0.6:
        return None
    if gentle or style < 0.8:
        weights = random.integers(0, 4, n).astype(np.float64)
        weights[:2] = 1.0
        return weights
    return 10.0 ** random.uniform(-12, 12, n)
