"""What a run asks of the queue follows from its flags alone."""

from __future__ import annotations

from example_project.places.demo.options import Options
from example_project.places.demo.plan import make_plan

CODES = [f"XX-{number:03}" for number in range(250)]


def test_make_plan_follows_the_flags():
    """Duplicates and poison are counted over all tenants; every tenant asks for every place."""
    plans = make_plan(["a", "b"], CODES, Options(duplicates=30, poison=4))

    assert [plan.tenant for plan in plans] == ["a", "b"]
    assert all([one["code"] for one in plan.index] == CODES for plan in plans)
    assert sum(len(plan.duplicates) for plan in plans) == 30
    assert sum(len(plan.boundaries) for plan in plans) == 4
    assert [len(plan.addresses) for plan in plans] == [2, 2]


def test_make_plan_is_decided_by_the_seed():
    """One seed asks the same again, another seed asks something else."""
    first = make_plan(["a", "b"], CODES, Options(seed=7))

    assert make_plan(["a", "b"], CODES, Options(seed=7)) == first
    assert make_plan(["a", "b"], CODES, Options(seed=8)) != first


def test_make_plan_never_repeats_a_poison_key():
    """Poison jobs on one place stay apart, or one would be deduped and the figure wrong."""
    plans = make_plan(["a"], CODES[:1], Options(poison=20, duplicates=0))

    keys = {(one["code"], one["part"]) for one in plans[0].boundaries}
    assert len(keys) == 20
