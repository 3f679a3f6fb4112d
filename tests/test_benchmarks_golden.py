"""The golden master: what it calls the same, and what it reports."""

import json
from dataclasses import replace

import pytest

from benchmarks import golden

BEFORE = golden.Outcome("bits", 10.0, 9.995, 5e-4, 7, "converged", "ocas", 1e-3, [0.9])
# Better on both sides, as another way to the same optimum may be.
NEARER = replace(BEFORE, bits="others", objective=9.999, dual=9.996, relative_gap=3e-4)


def test_there_are_enough_fits_and_each_solver_has_some():
    names = golden.fits()
    assert len(names) >= 60
    for solver in {*golden.IN_MEMORY, *golden.ON_DISK}:
        assert sum(name.startswith(f"{solver} ") for name in names) >= 2


def test_a_record_compares_with_itself_and_a_changed_one_is_reported(tmp_path, capsys):
    file = tmp_path / "golden.json"
    only = "--only=dcd hinge wide"
    assert golden.main(["record", str(file), only]) == 0
    assert golden.main(["compare", str(file), only]) == 0
    assert capsys.readouterr().out.endswith("2 same bits, 0 same gap, 0 DIFFERS\n")
    stored = json.loads(file.read_text())
    moved, lost = stored
    for name in ("objective", "dual"):
        stored[moved][0][name] *= 1.01
    del stored[lost]
    file.write_text(json.dumps(stored))
    assert golden.main(["compare", str(file), only]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"DIFFERS    {moved}: objective ")
    assert lines[1] == f"DIFFERS    {lost}: was not recorded"
    assert lines[2] == "0 same bits, 0 same gap, 2 DIFFERS"


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (BEFORE, "same bits"),
        (NEARER, "same gap"),
        (replace(NEARER, n_iter=9, more=[0.91]), "same gap"),
        (replace(NEARER, more=[0.8]), "DIFFERS"),
        (replace(NEARER, more=[]), "DIFFERS"),
        (replace(NEARER, objective=9.9949, dual=9.994), "DIFFERS"),  # below the lower bound
        (replace(NEARER, objective=10.2, dual=10.1), "DIFFERS"),  # whose bound is above BEFORE
        (replace(NEARER, relative_gap=2e-3), "DIFFERS"),
        (replace(NEARER, solver="acf"), "DIFFERS"),
        (replace(NEARER, status="max_iter"), "DIFFERS"),
    ],
)
def test_answers_are_the_same_if_both_are_proved_to_be_as_good(now, expected):
    assert golden.verdict([BEFORE], [now])[0] == expected
    assert golden.verdict([now], [BEFORE])[0] == expected
    assert golden.verdict([BEFORE], [now, now])[0] == "DIFFERS"
