"""A run is a success only where its figures are what was promised."""

from __future__ import annotations

from dataclasses import replace

import pytest

from example_project.places.demo.options import Options
from example_project.places.demo.report import report_lines
from example_project.places.demo.result import Result

OPTIONS = Options(tenants=2, duplicates=5, poison=3)
GOOD = Result(
    enqueued=103,
    deduped=5,
    completed=100,
    dead=3,
    retried=7,
    lost=0,
    doubled=0,
    jobs_per_second=50.0,
    seconds=2.0,
    tenants=2,
    seed=1,
    run="abc123",
)


def test_faults_of_a_good_run_are_none():
    """Nothing lost, nothing doubled, and the counts follow the flags."""
    assert GOOD.faults(OPTIONS) == []
    assert any("Nothing was lost" in line for line in report_lines(GOOD, OPTIONS, []))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"lost": 1}, "never had their effect"),
        ({"doubled": 1}, "more than once"),
        ({"deduped": 4}, "were deduped"),
        ({"dead": 4, "completed": 99}, "are dead"),
        ({"completed": 99}, "were accepted"),
    ],
)
def test_faults_tell_each_broken_promise(change, told):
    """Each figure that is off is one sentence, in the report too."""
    bad = replace(GOOD, **change)

    faults = bad.faults(OPTIONS)

    assert len(faults) == 1
    assert told in faults[0]
    assert f"  {faults[0]}" in list(report_lines(bad, OPTIONS, []))
