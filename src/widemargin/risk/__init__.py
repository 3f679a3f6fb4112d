"""What is minimised: functions of the scores, which never see the rows."""

from widemargin.risk.base import Cut, Line, LineSums, Risk
from widemargin.risk.margin import Hinge, MarginRisk, SquaredHinge
from widemargin.risk.multiclass import CrammerSinger

__all__ = [
    "CrammerSinger",
    "Cut",
    "Hinge",
    "Line",
    "LineSums",
    "MarginRisk",
    "Risk",
    "SquaredHinge",
]
