"""Folds of a cross-validation on a cluster: their rows, and the scores of held-out rows.

No row moves. A row's fold is a number, which is given or drawn on the row's worker. The row has
weight zero when the other folds are used for training.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from widemargin.dask.class_problems import ClassProblems
from widemargin.dask.questions import Part, Point
from widemargin.dask.tasks import scores_at

# How many 64-bit numbers the random generator makes for each value of its counter.
_PER_COUNT = 4


class Deal(NamedTuple):
    """How a part's rows are distributed among folds.

    The rows of a class are numbered 0, 1, ... through all parts in their order. Each run of
    `n_folds` of them has one row for each fold: in turn, or in an order that depends only on the
    seed, the class and the place of the run.
    """

    classes: np.ndarray  # (k,)
    first: np.ndarray  # (k,) the number of the part's first row of each class
    before: np.ndarray  # (k,) rows of the classes before each class, in all parts
    n_folds: int
    seed: int | None


def deal(part: Part, how: Deal) -> Part:
    """Return the part with folds; runs on a worker."""
    codes = np.searchsorted(how.classes, part.y)
    folds = np.empty(codes.size, dtype=np.int64)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        numbers = how.first[code] + np.arange(rows.size)
        if how.seed is None:
            # Each class continues where the one before it ended, so that folds have equal sizes.
            folds[rows] = (how.before[code] + numbers) % how.n_folds
        else:
            folds[rows] = _shuffled(numbers, how.n_folds, how.seed, int(code))
    return replace(part, folds=folds)


def _shuffled(numbers: np.ndarray, n_folds: int, seed: int, code: int) -> np.ndarray:
    """Return the folds of consecutive rows of a class."""
    runs = numbers // n_folds
    counts = -(-n_folds // _PER_COUNT)  # for one run
    generator = np.random.Philox(counter=int(runs[0]) * counts, key=[seed, code])
    n_runs = int(runs[-1] - runs[0]) + 1
    drawn = generator.random_raw(n_runs * counts * _PER_COUNT).reshape(n_runs, -1)
    return drawn[:, :n_folds].argsort(axis=1)[runs - runs[0], numbers % n_folds]


def describe_folds(part: Part) -> tuple[str, np.ndarray, np.ndarray, np.ndarray]:
    """Return name, numbers of folds, labels, and the weights (f, k) of their rows."""
    assert part.folds is not None
    folds, fold_codes = np.unique(part.folds, return_inverse=True)
    labels, codes = np.unique(part.y, return_inverse=True)
    weights = np.zeros((folds.size, labels.size))
    np.add.at(weights, (fold_codes, codes), part.all_weights)
    return part.name, folds, labels, weights


class Folds:
    """The checked folds of parts that have them.

    Attributes
    ----------
    weights : list of ndarray of shape (k,)
        The weight of each class in the rows that each fold trains on.
    """

    def __init__(self, problems: ClassProblems):
        described = problems.each(describe_folds)
        every = np.unique(np.concatenate([folds for _, folds, _, _ in described]))
        weights = np.zeros((every.size, problems.classes.size))
        for _, folds, labels, found in described:
            places = np.searchsorted(every, folds), np.searchsorted(problems.classes, labels)
            weights[np.ix_(*places)] += found
        self.numbers = every[every >= 0].tolist()
        self.weights = [weights[every != number].sum(axis=0) for number in self.numbers]
        if not self.numbers:
            raise ValueError("cv has no folds")
        for number, trained in zip(self.numbers, self.weights, strict=True):
            classes = problems.classes[problems.are_counted(trained)]
            self._check(number, weights[every == number].sum(), classes)

    def _check(self, number: int, held_out: float, classes: np.ndarray) -> None:
        if held_out == 0.0:
            raise ValueError(f"fold {number} of cv holds out no rows of a weight above zero")
        if len(classes) < 2:
            raise ValueError(
                f"fold {number} of cv trains on rows of one class only, {classes.tolist()}: a "
                "classifier needs two. Use fewer folds, or ones that are stratified"
            )

    def __len__(self) -> int:
        return len(self.numbers)


def deal_out(problems: ClassProblems, n_folds: int, seed: int | None) -> None:
    """Give each row of all parts a fold, so that each fold has the same fraction of each class."""
    totals = problems.counts.sum(axis=0)
    before = np.cumsum(totals) - totals
    first = np.cumsum(problems.counts, axis=0) - problems.counts
    problems.parts.replace(
        deal, [Deal(problems.classes, numbers, before, n_folds, seed) for numbers in first]
    )


# --- scores of held-out rows --------------------------------------------------------------------


class Judge(NamedTuple):
    """A classifier, and the fold whose rows it has not seen."""

    fold: int
    classes: np.ndarray  # (k,)
    coef: np.ndarray  # (m, d)
    intercept: np.ndarray  # (m,)


@dataclass(frozen=True)
class Judges:
    """The classifiers of all folds, as one object to send."""

    all: Sequence[Judge]

    def __sizeof__(self) -> int:
        return self.nbytes

    @property
    def nbytes(self) -> int:
        return sum(judge.coef.nbytes for judge in self.all)


class HeldOut(NamedTuple):
    """Held-out rows: scores, labels and weights."""

    scores: np.ndarray  # (h, m)
    y: np.ndarray  # (h,)
    weights: np.ndarray  # (h,)


def held_out(part: Part, judges: Judges) -> list[HeldOut]:
    """Return the scores of each fold's held-out rows, without those of weight zero."""
    points = [Point("", judge.coef.T, judge.intercept) for judge in judges.all]
    found = []
    for judge, S in zip(judges.all, scores_at(part.rows, points), strict=True):
        rows = np.flatnonzero((part.folds == judge.fold) & (part.all_weights > 0.0))
        found.append(HeldOut(S[rows], part.y[rows], part.all_weights[rows]))
    return found


def count_right(part: Part, judges: Judges) -> np.ndarray:
    """Return the weight of correctly classified held-out rows per fold, and of all, (f, 2)."""
    counts = []
    for judge, (S, y, weights) in zip(judges.all, held_out(part, judges), strict=True):
        places = (S[:, 0] > 0.0).astype(int) if S.shape[1] == 1 else S.argmax(axis=1)
        counts.append([weights[judge.classes[places] == y].sum(), weights.sum()])
    return np.array(counts)


def name_held_out(part: Part, judges: Judges) -> list[tuple[str, list[HeldOut]]]:
    """Return the name of the part, and its `held_out`."""
    return [(part.name, held_out(part, judges))]
