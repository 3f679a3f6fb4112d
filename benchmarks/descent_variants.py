"""Coordinate descent with other settings, for ablations: see ablation.py."""

from __future__ import annotations

from widemargin.solvers.settings import (
    CheckSettings,
    CoordinateSettings,
    JointSettings,
    VisitSettings,
)

_ALWAYS = float("inf")
# What both schedules of coordinate descent have, and what each of them has.
_OF_BOTH: dict[str, CoordinateSettings] = {
    "no multiple of a point": CoordinateSettings(checks=CheckSettings(tries_multiples=False)),
    "steps to the maximum and no farther": CoordinateSettings(visits=VisitSettings(overstep=1.0)),
    "rows never centred": CoordinateSettings(common_part=_ALWAYS),
    "constant feature as large as the rows": CoordinateSettings(constant_feature=1.0),
    "w in double precision": CoordinateSettings(
        checks=CheckSettings(single_precision_tol=_ALWAYS)
    ),
}
_OF_DCD: dict[str, CoordinateSettings] = {
    "rows never rest": CoordinateSettings(visits=VisitSettings(rest=0)),
}
_OF_ACF: dict[str, CoordinateSettings] = {
    "no joint steps": CoordinateSettings(joint=JointSettings(largest=0.0)),
    "no joint steps foreseen": CoordinateSettings(joint=JointSettings(many_features=1 << 62)),
    "no inactive rows": CoordinateSettings(visits=VisitSettings(pushed=_ALWAYS)),
    "idle visits forgotten as slowly as in the paper": CoordinateSettings(
        visits=VisitSettings(forgotten=0.82)
    ),
    "passes as long as the paper's, rows coming twice": CoordinateSettings(
        visits=VisitSettings(smallest_pass=1.0)
    ),
}

#: schedule -> variant -> its settings
VARIANTS = {"dcd": _OF_BOTH | _OF_DCD, "acf": _OF_BOTH | _OF_ACF}
