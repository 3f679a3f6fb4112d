"""What is minimised: functions of the scores, which never see the rows."""

from widemargin.losses import HINGE, LOSSES, SMOOTH_HINGE, SQUARED_HINGE, Loss
from widemargin.risk.base import (
    Bound,
    CodedRisk,
    Curvature,
    Cut,
    Line,
    LineSums,
    Risk,
    RowLine,
    RowRisk,
    SmoothRisk,
)
from widemargin.risk.labelling import LabellingRisk
from widemargin.risk.logistic import LogisticRisk
from widemargin.risk.lowest import LowestMean
from widemargin.risk.margin import Hinge, MarginRisk, SquaredHinge
from widemargin.risk.measures import Measure, measure_called
from widemargin.risk.multiclass import CrammerSinger
from widemargin.risk.multinomial import MultinomialRisk
from widemargin.risk.pairwise import PairwiseHinge
from widemargin.risk.targets import TargetRisk
from widemargin.risk.top import AveragePrecision, PartialArea

__all__ = [
    "HINGE",
    "LOSSES",
    "SMOOTH_HINGE",
    "SQUARED_HINGE",
    "AveragePrecision",
    "Bound",
    "CodedRisk",
    "CrammerSinger",
    "Curvature",
    "Cut",
    "Hinge",
    "LabellingRisk",
    "Line",
    "LineSums",
    "LogisticRisk",
    "Loss",
    "LowestMean",
    "MarginRisk",
    "Measure",
    "MultinomialRisk",
    "PairwiseHinge",
    "PartialArea",
    "Risk",
    "RowLine",
    "RowRisk",
    "SmoothRisk",
    "SquaredHinge",
    "TargetRisk",
    "measure_called",
]
