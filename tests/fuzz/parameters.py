"""Random parameters of estimators."""

from widemargin.losses import LOSSES, TARGET_LOSSES, Shape
from widemargin.solvers.registry import SOLVERS, Place, RiskKind, names

_MEASURES = ["f1", "f0.01", "f20", "prbep", "precision@3", "recall@5", "recall@precision=0.75"]
_MEASURES += ["error", "average_precision", "roc_auc@0.4"]

# No fit takes long; those that are stopped have something to prove as well.
_LIMITS = {"max_iter": 200, "max_time": 1.0}


def power(random, low, high) -> float:
    """Return 10 to a power between these."""
    return float(10.0 ** random.uniform(low, high))


def cost(random, gentle):
    return power(random, -2, 2) if gentle or random.random() < 0.5 else power(random, -8, 10)


def tolerance(random):
    return power(random, -8, -1)


def parameters(random, kind, gentle) -> dict:
    """Return parameters of an estimator, or of `svm_path`; `kind` is one of `cases.KINDS`."""
    estimator, _, variety = kind.partition(" ")
    given = {"tol": tolerance(random), **_LIMITS}
    if estimator == "LinearOneClassSVM":
        given["nu"] = float(random.choice([0.5, 1.0, random.uniform(1e-3, 1.0), 1e-6]))
        return given
    if estimator in ("LinearRanker", "OrdinalSVC"):
        given["solver"] = str(random.choice(["auto", *names(risk=RiskKind.ANY)]))
        given["C"] = cost(random, gentle)
        if estimator == "LinearRanker":
            given["normalization"] = str(random.choice(["pairs", "queries"]))
        return given
    if estimator in ("MeasureSVC", "MeasureSVCCV"):
        measure = str(random.choice(_MEASURES))
        given["solver"] = str(random.choice(["auto", *names(risk=RiskKind.ANY)]))
        given |= _intercept(random)
        if estimator == "MeasureSVCCV":
            return {"measure": measure, "parameters": given, "Cs": _costs(random, gentle), "cv": 2}
        return {"measure": measure, "C": cost(random, gentle)} | given
    given["random_state"] = 0
    if not estimator.startswith("LogisticRegression"):
        given["loss"] = str(random.choice(_losses(estimator, variety)))
    given |= _intercept(random)
    if variety == "sparse":
        given |= _sparse_penalty(random)
    if variety == "scaled":
        given |= {"fit_intercept": True, "penalized_intercept": True}
        given["intercept_scaling"] = power(random, *((-2, 2) if gentle else (-12, 12)))
    if estimator == "LinearSVR":
        return given | _of_regression(random, variety, gentle)
    if estimator == "LogisticRegression":
        return given | _of_logistic(random, variety) | {"C": cost(random, gentle)}
    if estimator == "LogisticRegressionCV":
        return given | _of_logistic(random, variety) | {"Cs": _costs(random, gentle), "cv": 2}
    return given | _of_classes(random, estimator, variety, gentle)


def _losses(estimator, variety):
    if estimator == "LinearSVR":
        return [
            name
            for name, loss in TARGET_LOSSES.items()
            if variety != "sparse" or loss(Shape()).is_smooth
        ]
    return [name for name, loss in LOSSES.items() if variety != "sparse" or loss.is_smooth]


def _intercept(random):
    kind = random.integers(3)
    return {"fit_intercept": bool(kind > 0), "penalized_intercept": bool(kind == 2)}


def _sparse_penalty(random):
    ratio = float(random.choice([0.5, 1e-6, 1.0 - 1e-6, random.random()]))
    return (
        {"penalty": "l1"}
        if random.random() < 0.5
        else {"penalty": "elasticnet", "l1_ratio": ratio}
    )


def _solvers(variety):
    if variety == "sparse":
        return ["auto", "proximal"]
    return ["auto", *names(Place.PRODUCTS if variety == "features" else Place.MEMORY)]


def _of_regression(random, variety, gentle):
    return {
        "epsilon": float(random.choice([0.0, 0.1, power(random, -8, 2)])),
        "delta": 1.0 if gentle else power(random, -6, 6),
        "quantile": float(random.choice([0.5, 0.9, random.random()])),
        "solver": str(random.choice(_solvers(variety))),
        "C": cost(random, gentle),
    }


def _of_logistic(random, variety):
    multi_class = "ovr" if variety == "sparse" else str(random.choice(["ovr", "multinomial"]))
    known = RiskKind.LOGISTIC, RiskKind.MULTINOMIAL
    able = set(names(risk=known[0])) & (
        set(names(risk=known[1])) if multi_class != "ovr" else set(SOLVERS)
    )
    solvers = _solvers(variety) if variety == "sparse" else ["auto", *sorted(able)]
    solver = str(random.choice(solvers))
    return {"multi_class": multi_class, "solver": solver}


def _of_classes(random, estimator, variety, gentle):
    given, solvers = {}, _solvers(variety)
    if variety in ("", "features", "scaled", "update") and random.random() < 0.3:
        given["multi_class"] = "crammer_singer"
        solvers.remove("newton")
    given["solver"] = str(random.choice(solvers))
    if random.random() < 0.1:
        given["class_weight"] = "balanced"
    elif random.random() < 0.1 and not gentle:
        given["class_weight"] = {0: power(random, -6, 6), 1: power(random, -6, 6)}
    if estimator == "LinearSVC":
        given["C"] = cost(random, gentle)
    else:
        given["Cs"] = _costs(random, gentle)
    if estimator == "LinearSVCCV":
        given["cv"] = 2
    if variety == "labels":
        given["class_weight"] = str(random.choice(["balanced", ""])) or None
        given["sparse_coef"] = bool(random.random() < 0.5)
    return given


def _costs(random, gentle):
    return [cost(random, gentle) for _ in range(int(random.integers(1, 4)))]


def kernel_features(random, gentle):
    """Return the name of a class of kernel features, and its parameters."""
    given = {"n_components": int(random.integers(1, 12)), "random_state": 0}
    given["gamma"] = ["scale", "auto", power(random, *((-2, 1) if gentle else (-30, 30)))][
        random.integers(3)
    ]
    if random.random() < 0.4:  # made anew in each pass
        given["memory_budget"] = 1
    if random.random() < 0.5:
        return "FourierFeatures", given
    given["kernel"] = str(random.choice(["rbf", "polynomial", "sigmoid", "cosine"]))
    return "NystroemFeatures", given
