"""manage.py jobs pause and resume."""

from __future__ import annotations

import getpass

import pytest

KEYS = {"queue", "paused_at", "paused_by", "changed", "note"}


def test_pause_and_resume_turn_the_queue(queue, jobs) -> None:
    """What is asked for is what claims see."""
    job_id = queue.enqueue().id

    paused = jobs("pause", queue.queue, "--json")
    while_paused = queue.claim()
    resumed = jobs("resume", queue.queue, "--json")

    assert (paused.code, resumed.code) == (0, 0)
    assert set(paused.data) == set(resumed.data) == KEYS
    assert (paused.data["queue"], paused.data["changed"]) == (queue.queue, True)
    assert paused.data["paused_by"] == f"cli:{getpass.getuser()}"
    assert (resumed.data["paused_at"], resumed.data["changed"]) == (None, True)
    assert while_paused == []
    assert [claim.id for claim in queue.claim()] == [job_id]


def test_pause_by_a_name_is_that_names(queue, jobs) -> None:
    """A deploy script says who it is."""
    assert jobs("pause", queue.queue, "--by", "deploy", "--json").data["paused_by"] == "deploy"


def test_pause_and_resume_twice_are_no_refusal(queue, jobs) -> None:
    """A script may be run again; the first pause stands."""
    queue.enqueue()

    first = jobs("pause", queue.queue, "--by", "ann")
    second = jobs("pause", queue.queue, "--by", "bob")
    goes_on, went_on = jobs("resume", queue.queue), jobs("resume", queue.queue)

    assert [one.code for one in (first, second, goes_on, went_on)] == [0, 0, 0, 0]
    assert (
        first.out.strip() == f"{queue.queue} is paused; what runs goes on, and what waits is kept"
    )
    assert second.out.startswith(f"{queue.queue} was paused before, at ")
    assert second.out.strip().endswith("by ann")
    assert goes_on.out.strip() == f"{queue.queue} goes on"
    assert went_on.out.strip() == f"{queue.queue} was not paused"


def test_pause_of_a_queue_that_nothing_names_is_done_with_a_note(queue, jobs) -> None:
    """It may be about to be used, or be misspelt; the operator is told."""
    text, data = jobs("pause", "billling"), jobs("pause", "billling", "--json").data
    queue.enqueue()
    known = jobs("pause", queue.queue, "--json").data

    assert 'no declared job names "billling"' in text.out
    assert "billling" in data["note"]
    assert data["paused_at"] is not None
    assert known["note"] is None


@pytest.mark.parametrize("verb", ["pause", "resume"])
@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_name_that_no_queue_can_have_is_refused(jobs, db, verb: str, flags: tuple[str]) -> None:
    """By its code, with exit 1."""
    answer = jobs(verb, "a,b", *flags)

    assert answer.code == 1
    assert "X_JOB_KEY_INVALID" in answer.out + answer.err


def test_stats_show_a_paused_queue_and_go_on_counting(queue, jobs) -> None:
    """The alarm must not go quiet; one without jobs is shown, too."""
    queue.enqueue()
    empty = f"{queue.queue}-empty"
    jobs("pause", queue.queue, "--by", "ann")
    jobs("pause", empty)
    queue.advance(60_000)

    text, data = jobs("stats").out, jobs("stats", "--json").data

    [one, other] = data["queues"]
    assert (one["queue"], one["depth"], one["paused_by"]) == (queue.queue, 1, "ann")
    assert one["oldest_ready_seconds"] >= 60
    assert (other["queue"], other["depth"], other["dead"]) == (empty, 0, 0)
    assert other["paused_at"] is not None
    assert data["total"]["depth"] == 1
    assert f"{queue.queue} is paused since 20" in text
    assert " by ann" in text


def test_stats_of_a_queue_that_goes_on_say_nothing_of_a_pause(queue, jobs) -> None:
    """Both keys are there, and null."""
    queue.enqueue()
    jobs("pause", queue.queue)
    jobs("resume", queue.queue)

    [one] = jobs("stats", "--json").data["queues"]

    assert (one["paused_at"], one["paused_by"]) == (None, None)
    assert "paused" not in jobs("stats").out
