"""Nothing falls between the look for what was missed and the moment from which words are heard."""

from __future__ import annotations

import pytest
from django.db.utils import OperationalError

from tests.processes.test_listener import ScriptedSubscription
from ultimate_jobs.processes.listener import Listener

GONE = OperationalError("gone")


@pytest.mark.parametrize(
    ("opens", "hears", "steps"),
    [([], [], 1), ([], [(), GONE, ()], 4), ([GONE, GONE], [], 3)],
    ids=["at the start", "after a loss", "after failed tries"],
)
def test_worker_looks_for_what_it_missed_only_once_it_hears(
    opens: list[Exception], hears: list[object], steps: int
) -> None:
    """A word in between is either heard or found; the other order would lose it."""
    subscription = ScriptedSubscription(opens=opens, hears=hears)
    looked_after: list[str] = []
    listener = Listener(
        subscription,
        queues=None,
        may_be_pooled=False,
        on_work=lambda: looked_after.append(subscription.acts[-1]),
        on_bug=lambda: None,
    )

    for _ in range(steps):
        # Failures are the loop's to count; what counts here is the order of the acts.
        try:
            listener.step()
        except OperationalError:
            continue

    assert looked_after
    assert set(looked_after) == {"listen"}
    assert len(looked_after) == subscription.acts.count("listen")
