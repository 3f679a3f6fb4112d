"""Random problems for fits whose certificates are to be checked, hard ones among them.

A case is a function of two numbers, the seed and its place, and can be written as code.
"""

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from blocks import Blocks

from widemargin.losses import LOSSES, TARGET_LOSSES
from widemargin.solvers.registry import SOLVERS, Place, RiskKind, names, only_for

KINDS = {
    "LinearSVC": 10,
    "LinearSVR": 5,
    "LogisticRegression": 4,
    "LinearRanker": 4,
    "MeasureSVC": 4,
    "OrdinalSVC": 2,
    "svm_path": 2,
    "LinearSVCCV": 1,
}

_MEASURES = ["f1", "f0.01", "f20", "prbep", "precision@3", "recall@5", "recall@precision=0.75"]
_MEASURES += ["error", "average_precision", "roc_auc@0.4"]

# No fit takes long; those that are stopped have something to prove as well.
_LIMITS = {"max_iter": 200, "max_time": 1.0}


@dataclass
class Case:
    """A call of `fit`, or of `svm_path`.

    Attributes
    ----------
    kind : str
        The estimator's name, or "svm_path".
    X, y, sample_weight, qid
        As `fit` takes them, X dense.
    layout : {"dense", "csr", "disk"}
        How X is given; rows on disk are in memory, and pretend.
    parameters : dict
    first : dict or None
        Parameters of an earlier fit that this one starts from.
    gentle : bool
        Whether all numbers are of a usual size.
    """

    kind: str
    X: np.ndarray
    y: np.ndarray
    parameters: dict
    sample_weight: np.ndarray | None = None
    qid: np.ndarray | None = None
    layout: str = "dense"
    first: dict | None = None
    gentle: bool = False
    name: str = field(default="", compare=False)

    @property
    def data(self) -> dict:
        """X and what else belongs to the rows, by name."""
        X = {"dense": np.asarray, "csr": sp.csr_matrix, "disk": Blocks}[self.layout](self.X)
        given = {"X": X, "y": self.y, "sample_weight": self.sample_weight, "qid": self.qid}
        return {name: value for name, value in given.items() if value is not None}

    def code(self) -> str:
        """Return what can be pasted into a test to have the same fit again."""
        lines = [f"# {self.name}", "import numpy as np", f"from widemargin import {self.kind}"]
        X = _array(self.X)
        if self.layout == "csr":
            lines.insert(2, "import scipy.sparse as sp")
            X = f"sp.csr_matrix({X})"
        elif self.layout == "disk":
            lines.insert(2, "from blocks import Blocks")
            X = f"Blocks({X})"
        lines += [f"X = {X}", f"y = {_array(self.y)}"]
        others = []
        for name in ("sample_weight", "qid"):
            if getattr(self, name) is not None:
                lines.append(f"{name} = {_array(getattr(self, name))}")
                others.append(f"{name}={name}")
        if self.kind == "svm_path":
            lines.append(f"path = svm_path({', '.join(['X', 'y', *others])}, **{self.parameters})")
            return "\n".join(lines)
        fit = f".fit({', '.join(['X', 'y', *others])})"
        if self.first is None:
            lines.append(f"model = {self.kind}(**{self.parameters}){fit}")
        else:
            lines.append(f"model = {self.kind}(**{self.first}){fit}")
            lines.append(f"model.set_params(**{self.parameters}){fit}")
        lines.append("print(model.status_, model.certificate_)")
        return "\n".join(lines)


def _array(values) -> str:
    return f"np.array({values.tolist()!r}, dtype=np.{values.dtype})"


def random_case(seed: int, place: int, kind: str | None = None) -> Case:
    """Return the case of this seed at this place, of a random kind if none is given."""
    random = np.random.default_rng([seed, place])
    drawn = random.choice(list(KINDS), p=np.array(list(KINDS.values())) / sum(KINDS.values()))
    kind = kind or str(drawn)
    gentle = bool(random.random() < 0.3)
    X = _rows(random, gentle)
    case = Case(
        kind,
        X,
        _targets(random, X, gentle) if kind == "LinearSVR" else _labels(random, kind, len(X)),
        _parameters(random, kind, gentle),
        sample_weight=_weights(random, len(X), gentle),
        layout=str(random.choice(["dense", "csr"])),
        gentle=gentle,
        name=f"seed {seed}, case {place}",
    )
    of_measure = case.parameters.get("measure", "error") != "error"
    if of_measure and case.sample_weight is not None:
        case.sample_weight = np.minimum(np.ceil(case.sample_weight), 4.0)
    if (kind == "LinearRanker" or of_measure) and random.random() < 0.5:
        case.qid = random.integers(0, 1 + len(X) // 4, len(X))
    if kind in ("LinearSVC", "LinearSVR") and random.random() < 0.1:
        case.layout, case.X = "disk", X.astype(np.float32)
        two_classes = case.parameters.get("multi_class") != "crammer_singer"
        solvers = [*(only_for(Place.DISK) if two_classes else ()), "ocas", "cpa"]
        case.parameters["solver"] = str(random.choice(solvers))
    may_start_warm = kind not in ("svm_path", "LinearSVCCV")
    if may_start_warm and random.random() < 0.15:
        case.first = case.parameters | {"C": _cost(random, gentle), "warm_start": True}
        case.parameters["warm_start"] = True
        case.parameters["tol"] = _tolerance(random)
    return case


def _power(random, low, high) -> float:
    """Return 10 to a power between these."""
    return float(10.0 ** random.uniform(low, high))


def _cost(random, gentle):
    return _power(random, -2, 2) if gentle or random.random() < 0.5 else _power(random, -8, 10)


def _tolerance(random):
    return _power(random, -8, -1)


def _rows(random, gentle):
    n, d = int(random.integers(2, 41)), int(random.integers(1, 11))
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
        X *= _power(random, -30, 30)
    if random.random() < 0.3:
        X[:, random.integers(d)] *= _power(random, -30, 30)
    if random.random() < 0.2:
        X[random.integers(n)] *= _power(random, -30, 30)
    if random.random() < 0.2:
        X[:, random.integers(d)] = random.choice([1.0, 1e3, 1e8, 1e16, _power(random, -30, 30)])
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
        y *= _power(random, -30, 30)
    if random.random() < 0.2:
        y += random.choice([1e3, 1e8, 1e16])
    if random.random() < 0.1:
        y[random.integers(n)] *= _power(random, 0, 20)
    if random.random() < 0.05:
        y[:] = y[0]
    return y


def _labels(random, kind, n):
    if kind == "LinearRanker" and random.random() < 0.5:
        return random.standard_normal(n)
    two = random.random() < 0.6 or kind == "MeasureSVC"
    n_classes = 2 if two else int(random.integers(3, 6))
    y = random.integers(0, n_classes, n)
    y[0], y[1] = 0, 1
    return y


def _weights(random, n, gentle):
    style = random.random()
    if style < 0.6:
        return None
    if gentle or style < 0.8:
        weights = random.integers(0, 4, n).astype(np.float64)
        weights[:2] = 1.0
        return weights
    return 10.0 ** random.uniform(-12, 12, n)


def _losses(kind):
    return TARGET_LOSSES if kind == "LinearSVR" else LOSSES


def _parameters(random, kind, gentle):
    parameters = {"tol": _tolerance(random), **_LIMITS}
    if kind in ("LinearRanker", "OrdinalSVC"):
        parameters["solver"] = str(random.choice(["auto", *names(risk=RiskKind.ANY)]))
        parameters["C"] = _cost(random, gentle)
        if kind == "LinearRanker":
            parameters["normalization"] = str(random.choice(["pairs", "queries"]))
        return parameters
    if kind == "MeasureSVC":
        parameters["measure"] = str(random.choice(_MEASURES))
        parameters["solver"] = str(random.choice(["auto", *names(risk=RiskKind.ANY)]))
        parameters["C"] = _cost(random, gentle)
        intercept = random.integers(3)
        parameters["fit_intercept"] = bool(intercept > 0)
        parameters["penalized_intercept"] = bool(intercept == 2)
        return parameters
    parameters["random_state"] = 0
    if kind != "LogisticRegression":
        parameters["loss"] = str(random.choice(list(_losses(kind))))
    intercept = random.integers(3)
    parameters["fit_intercept"] = bool(intercept > 0)
    parameters["penalized_intercept"] = bool(intercept == 2)
    solvers = ["auto", *names(Place.MEMORY)]
    if kind == "LinearSVR":
        parameters["epsilon"] = float(random.choice([0.0, 0.1, _power(random, -8, 2)]))
        parameters["delta"] = 1.0 if gentle else _power(random, -6, 6)
        parameters["quantile"] = float(random.choice([0.5, 0.9, random.random()]))
        parameters["solver"] = str(random.choice(solvers))
        parameters["C"] = _cost(random, gentle)
        return parameters
    if kind == "LogisticRegression":
        parameters["multi_class"] = str(random.choice(["ovr", "multinomial"]))
        known = RiskKind.LOGISTIC, RiskKind.MULTINOMIAL
        able = set(names(risk=known[0])) & (
            set(names(risk=known[1])) if parameters["multi_class"] != "ovr" else set(SOLVERS)
        )
        parameters["solver"] = str(random.choice(["auto", *sorted(able)]))
        parameters["C"] = _cost(random, gentle)
        return parameters
    if random.random() < 0.3:
        parameters["multi_class"] = "crammer_singer"
        solvers.remove("newton")
    parameters["solver"] = str(random.choice(solvers))
    if random.random() < 0.1:
        parameters["class_weight"] = "balanced"
    elif random.random() < 0.1 and not gentle:
        parameters["class_weight"] = {0: _power(random, -6, 6), 1: _power(random, -6, 6)}
    if kind == "LinearSVC":
        parameters["C"] = _cost(random, gentle)
    else:
        parameters["Cs"] = [_cost(random, gentle) for _ in range(int(random.integers(1, 4)))]
    if kind == "LinearSVCCV":
        parameters["cv"] = 2
    return parameters
