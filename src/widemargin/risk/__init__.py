"""What is minimised: functions of the scores, which never see the rows."""

from widemargin.losses import HINGE, LOSSES, SMOOTH_HINGE, SQUARED_HINGE, Loss
from widemargin.risk.base import Bound, Cut, Line, LineSums, Risk, RowLine, RowRisk
from widemargin.risk.margin import Hinge, MarginRisk, SquaredHinge
from widemargin.risk.multiclass import CrammerSinger
from widemargin.risk.pairwise import PairwiseHinge

__all__ = [
    "HINGE",
    "LOSSES",
    "SMOOTH_HINGE",
    "SQUARED_HINGE",
    "Bound",
    "CrammerSinger",
    "Cut",
    "Hinge",
    "Line",
    "LineSums",
    "Loss",
    "MarginRisk",
    "PairwiseHinge",
    "Risk",
    "RowLine",
    "RowRisk",
    "SquaredHinge",
]
