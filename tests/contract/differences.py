"""What only one driver can do: the one list of tests that the other driver skips, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Difference:
    """One test that one driver cannot run."""

    test: str
    driver: str
    why: str


DIFFERENCES = (
    Difference(
        "test_outbox_asked_of_a_driver_without_one_is_refused",
        "postgres",
        "postgres has an outbox",
    ),
    Difference(
        "test_close_of_a_driver_in_this_process_forgets_everything",
        "postgres",
        "what postgres keeps outlives the driver; that is its purpose",
    ),
    Difference(
        "test_at_of_a_driver_without_a_database_is_refused",
        "postgres",
        "postgres is over a database alias, and over any other",
    ),
    Difference(
        "test_at_of_a_driver_over_a_database_moves_to_another",
        "memory",
        "memory is over no database",
    ),
    Difference(
        "test_claim_by_many_threads_takes_each_job_once",
        "postgres",
        "other threads have other connections, which cannot see this test's transaction; "
        "tests/concurrency shows it with committed rows",
    ),
    Difference(
        "test_enqueue_in_a_rolled_back_block_leaves_nothing",
        "memory",
        "memory has no transactions; the service applies its enqueues on commit",
    ),
)


def why_skipped(test: str, driver: str | None) -> str | None:
    """Return why this driver skips this test, or ``None`` where it must not."""
    for difference in DIFFERENCES:
        if (difference.test, difference.driver) == (test, driver):
            return difference.why
    return None
