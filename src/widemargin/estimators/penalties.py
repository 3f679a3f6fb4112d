"""Checks of penalties, and of what goes with them."""

from sklearn.base import BaseEstimator

from widemargin.estimators.validation import check_choice, is_real
from widemargin.penalty import PENALTIES, Penalty

# Losses that LIBLINEAR minimises by their duals alone.
_DUAL_ONLY = ("hinge", "epsilon_insensitive")


def check_penalty(
    model: BaseEstimator, loss: str, is_smooth: bool, multi_class: str = "ovr"
) -> None:
    """Refuse penalties, losses and `dual` that do not go together, in scikit-learn's words."""
    penalty, dual = model.penalty, model.dual
    check_choice("penalty", penalty, PENALTIES)
    check_choice("dual", dual, ("auto", True, False))
    if not (is_real(model.l1_ratio) and 0 <= model.l1_ratio <= 1):
        raise ValueError(f"l1_ratio must be a number from 0 to 1, not {model.l1_ratio!r}")
    if multi_class == "crammer_singer":  # which ignores the loss, and whether there is a dual
        if penalty != "l2":
            raise ValueError(f"penalty={penalty!r} is not for multi_class='crammer_singer'")
        return
    if dual == "auto":
        dual = penalty == "l2"
    problem = ""
    if penalty != "l2" and not is_smooth:
        problem = f"The combination of penalty='{penalty}' and loss='{loss}' is not supported"
    elif (penalty != "l2" and dual) or (loss in _DUAL_ONLY and not dual):
        problem = (
            f"The combination of penalty='{penalty}' and loss='{loss}' are not supported when "
            f"dual={dual}"
        )
    if problem:
        raise ValueError(
            f"Unsupported set of arguments: {problem}, Parameters: {penalty=}, {loss=}, {dual=}"
        )


def penalty_of(model: BaseEstimator) -> Penalty:
    """Return the penalty that a model's parameters name."""
    return Penalty.called(model.penalty, model.l1_ratio)


def check_logistic_penalty(penalty: object, l1_ratio: object) -> None:
    """Refuse penalties of logistic regression that are not offered."""
    if penalty is None:
        raise ValueError("penalty=None is not offered: a large C is nearly without a penalty")
    check_choice("penalty", penalty, ("auto", *PENALTIES))
    if l1_ratio is None and penalty != "elasticnet":
        return
    if not (is_real(l1_ratio) and 0 <= l1_ratio <= 1):
        raise ValueError(f"l1_ratio must be a number from 0 to 1, not {l1_ratio!r}")
    if l1_ratio != 0 and penalty == "l2":
        raise ValueError(
            f"l1_ratio={l1_ratio!r} goes with penalty='elasticnet', not with penalty='l2'"
        )
