"""What is minimised: functions of the scores, which never see the rows."""

from widemargin.risk.margin import Hinge, MarginRisk, SquaredHinge

__all__ = ["Hinge", "MarginRisk", "SquaredHinge"]
