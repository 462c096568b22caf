"""States: the words are fixed, every one has its place, and the transitions close over them."""

from __future__ import annotations

import pytest

from ultimate_jobs.states import (
    BACKFILL_FINAL,
    FINAL,
    LIVE,
    RETRYABLE,
    TRANSITIONS,
    WAITING,
    BackfillStatus,
    JobState,
    StepStatus,
    sql_list,
)


def test_states_of_a_job_are_the_seven_words() -> None:
    """The stored words never change: rows and CHECKs of earlier releases hold them."""
    words = [state.value for state in JobState]

    assert words == ["ready", "delayed", "running", "suspended", "completed", "dead", "cancelled"]


def test_states_of_a_step_are_the_four_words() -> None:
    """The stored words never change."""
    assert [one.value for one in StepStatus] == ["completed", "failed", "sleeping", "waiting"]


def test_states_of_a_backfill_are_the_five_words() -> None:
    """The stored words never change."""
    words = [one.value for one in BackfillStatus]

    assert words == ["running", "paused", "completed", "failed", "cancelled"]


def test_live_and_final_states_are_all_states_and_share_none() -> None:
    """A job is either live or final, and never both."""
    assert set(LIVE) | set(FINAL) == set(JobState)
    assert not set(LIVE) & set(FINAL)


def test_waiting_states_are_the_live_ones_without_running() -> None:
    """What waits is what is live and holds no worker."""
    assert set(WAITING) == set(LIVE) - {JobState.RUNNING}


def test_retryable_states_are_final_and_leave_completed_out() -> None:
    """A completed job comes back only by a fresh run."""
    assert set(RETRYABLE) == set(FINAL) - {JobState.COMPLETED}


def test_final_backfill_states_leave_running_and_paused_out() -> None:
    """A paused pass is live: it still holds its name."""
    assert set(BACKFILL_FINAL) == set(BackfillStatus) - {
        BackfillStatus.RUNNING,
        BackfillStatus.PAUSED,
    }


def test_transitions_name_every_state_once() -> None:
    """No state is without an answer to what may follow."""
    assert set(TRANSITIONS) == set(JobState)


@pytest.mark.parametrize("state", FINAL)
def test_transition_from_a_final_state_leads_only_to_ready(state: JobState) -> None:
    """A finished job comes back only by a manual retry."""
    assert TRANSITIONS[state] == {JobState.READY}


@pytest.mark.parametrize("state", WAITING)
def test_transition_from_a_waiting_state_runs_or_cancels(state: JobState) -> None:
    """Nothing that waits completes or dies without having run."""
    assert {JobState.RUNNING, JobState.CANCELLED} <= TRANSITIONS[state]
    assert not {JobState.COMPLETED, JobState.DEAD} & TRANSITIONS[state]


def test_transition_leads_to_delayed_from_nowhere() -> None:
    """``delayed`` is for a first run only."""
    assert all(JobState.DELAYED not in following for following in TRANSITIONS.values())


@pytest.mark.parametrize("state", JobState)
def test_transition_never_leads_to_the_same_state(state: JobState) -> None:
    """A transition is a change."""
    assert state not in TRANSITIONS[state]


@pytest.mark.parametrize("target", JobState)
def test_state_that_can_be_stored_at_all_can_be_left(target: JobState) -> None:
    """There is no state without a way out."""
    assert TRANSITIONS[target]


def test_sql_list_quotes_each_state_and_joins_them() -> None:
    """DDL is built from the same words that Python knows."""
    assert sql_list(RETRYABLE) == "'dead', 'cancelled'"


def test_sql_list_of_nothing_is_empty() -> None:
    """No state, no text."""
    assert sql_list([]) == ""
