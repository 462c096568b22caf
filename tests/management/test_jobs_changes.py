"""manage.py jobs cancel and retry: each id is answered in its own right."""

from __future__ import annotations

import getpass

from ultimate_jobs.states import JobState

NOBODY = "0198c2f4-7a10-7e51-9a52-3f8f2f6c1d20"


def codes(answer) -> dict[str, str]:
    return {one["id"]: one["error"]["code"] for one in answer.data["refused"]}


def test_cancel_of_waiting_jobs_ends_them(queue, jobs) -> None:
    """Several ids at once, and the history tells who asked."""
    first, second = queue.enqueue().id, queue.enqueue(tenant="acme").id

    answer = jobs("cancel", first, second, "--json")

    assert answer.code == 0
    assert [one["outcome"] for one in answer.data["done"]] == ["cancelled", "cancelled"]
    assert set(answer.data["done"][0]) == {"id", "outcome", "state", "run_id"}
    assert queue.get(second).state is JobState.CANCELLED
    assert queue.events(first)[-1].detail["by"] == f"cli:{getpass.getuser()}"


def test_cancel_of_a_running_job_asks_it_to_stop(queue, jobs) -> None:
    """Asked is not ended, and the answer says which."""
    claim = queue.running()

    text = jobs("cancel", claim.id)

    assert text.code == 0
    assert text.out.strip() == f"{claim.id} runs and was asked to stop"
    assert queue.get(claim.id).state is JobState.RUNNING


def test_cancel_twice_is_no_refusal(queue, jobs) -> None:
    """What is asked for is already so."""
    job_id = queue.enqueue().id
    jobs("cancel", job_id)

    answer = jobs("cancel", job_id)

    assert answer.code == 0
    assert answer.out.strip() == f"{job_id} was cancelled before"


def test_cancel_of_ids_some_of_which_are_refused_does_the_others(queue, jobs) -> None:
    """One that cannot be done stops no other, and the exit code is 1."""
    done, waiting = queue.job_in(JobState.COMPLETED), queue.enqueue().id

    answer = jobs("cancel", "seven", NOBODY, done, waiting, "--json")

    assert answer.code == 1
    assert [one["id"] for one in answer.data["done"]] == [str(waiting)]
    assert codes(answer) == {
        "seven": "X_ARGUMENT_INVALID",
        NOBODY: "X_JOB_NOT_FOUND",
        str(done): "X_JOB_STATE_REFUSED",
    }


def test_cancel_of_refused_ids_as_text_reports_each(queue, jobs) -> None:
    """What was done stands on stdout, what was refused on stderr."""
    waiting = queue.enqueue().id

    answer = jobs("cancel", NOBODY, waiting)

    assert answer.code == 1
    assert answer.out.strip() == f"{waiting} is cancelled"
    assert answer.err.startswith("X_JOB_NOT_FOUND")


def test_retry_of_dead_jobs_makes_them_ready(queue, jobs) -> None:
    """The run stays the same."""
    job_id = queue.job_in(JobState.DEAD)
    before = queue.get(job_id)

    answer = jobs("retry", job_id, job_id, "--json")

    assert answer.code == 0
    [done] = answer.data["done"]
    assert (done["outcome"], done["state"]) == ("retried", "ready")
    assert done["run_id"] == str(before.run_id)
    assert queue.get(job_id).state is JobState.READY


def test_retry_of_a_completed_job_needs_fresh(queue, jobs) -> None:
    """Only ``--fresh`` runs again what went well, and as a new run."""
    job_id = queue.job_in(JobState.COMPLETED)
    before = queue.get(job_id)

    refused = jobs("retry", job_id, "--json")
    answer = jobs("retry", job_id, "--fresh", "--json")

    assert refused.code == 1
    assert codes(refused) == {str(job_id): "X_JOB_STATE_REFUSED"}
    assert answer.code == 0
    assert answer.data["done"][0]["run_id"] != str(before.run_id)


def test_retry_of_a_held_key_names_the_holder(queue, jobs) -> None:
    """A live job of the same key is named, and nothing was changed."""
    dead = queue.job_in(JobState.DEAD, key="one")
    holder = queue.enqueue(key="one").id

    answer = jobs("retry", dead, "--json")

    assert answer.code == 1
    [refused] = answer.data["refused"]
    assert refused["error"]["code"] == "X_JOB_DUPLICATE"
    assert refused["error"]["fix"] == f"manage.py jobs show {holder}"
    assert queue.get(dead).state is JobState.DEAD
