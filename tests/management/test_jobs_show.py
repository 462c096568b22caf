"""manage.py jobs show: all that is stored of a job, and one sentence on where it stands."""

from __future__ import annotations

from ultimate_jobs.states import JobState
from ultimate_jobs.types import Failure

HOSTILE = "\x1b]0;title\x07\n<script>"
JOB_KEYS = {
    "id",
    "run_id",
    "name",
    "queue",
    "tenant",
    "key",
    "payload",
    "result",
    "state",
    "priority",
    "attempt",
    "max_attempts",
    "lost_leases",
    "retry_count",
    "run_at",
    "due_at",
    "created_at",
    "updated_at",
    "claimed_at",
    "finished_at",
    "cancel_requested_at",
    "worker",
    "token",
    "last_error",
    "enqueued_by",
    "traceparent",
    "rerun_requested",
    "deferrals",
    "serial_key",
}


def test_show_as_json_has_stable_keys(queue, jobs) -> None:
    """The keys of a job, of its events and of the answer are a promise."""
    job_id = queue.job_in(JobState.DEAD)

    answer = jobs("show", job_id, "--json")

    assert answer.code == 0
    assert set(answer.data) == {"job", "events", "why"}
    assert set(answer.data["job"]) == JOB_KEYS
    [event] = answer.data["events"]
    assert set(event) == {"id", "run_id", "type", "attempt", "at", "worker", "detail"}
    assert event["detail"]["error_class"] == "ValueError"


def test_show_as_json_gives_payload_and_result_as_values(queue, jobs) -> None:
    """They are objects in the answer, not text in quotes."""
    job_id = queue.job_in(JobState.COMPLETED, payload='{"n": 7}')

    job = jobs("show", job_id, "--json").data["job"]

    assert job["payload"] == {"n": 7}
    assert job["result"] == {"done": True}


def test_show_as_text_tells_state_payload_error_and_events(queue, jobs) -> None:
    """Everything that helps to find out what happened is on one screen."""
    job_id = queue.job_in(JobState.DEAD, payload='{"n": 7}')

    text = jobs("show", job_id).out

    assert f"job          {job_id}" in text
    assert "state        dead" in text
    assert '"n": 7' in text
    assert "ValueError: boom" in text
    assert "    Traceback: boom" in text


def test_show_of_any_tenant_finds_the_job(queue, jobs) -> None:
    """An operator needs not know the tenant."""
    job_id = queue.enqueue(tenant="acme").id

    assert jobs("show", job_id, "--json").data["job"]["tenant"] == "acme"


def test_show_of_no_job_is_not_found(queue, jobs) -> None:
    """As text on stderr with code, cause, fix and docs; as JSON on stdout with the same four."""
    nobody = "0198c2f4-7a10-7e51-9a52-3f8f2f6c1d20"

    text, data = jobs("show", nobody), jobs("show", nobody, "--json")

    assert (text.code, data.code) == (1, 1)
    assert text.out == ""
    assert text.err.startswith(f"X_JOB_NOT_FOUND: no job has the id {nobody}")
    assert (
        "\n  fix: manage.py jobs ls\n  docs: docs/reference/errors/x_job_not_found.md" in text.err
    )
    assert data.err == ""
    assert set(data.data["error"]) == {"code", "cause", "fix", "docs"}


def test_show_of_what_is_no_id_is_refused(jobs) -> None:
    """A typing error is told apart from a job that is not there."""
    answer = jobs("show", "seven", "--json")

    assert answer.code == 1
    assert answer.data["error"]["code"] == "X_ARGUMENT_INVALID"


def test_show_of_an_unknown_state_says_which(jobs, newer_state) -> None:
    """A row of a newer release is refused by name, not guessed."""
    answer = jobs("show", newer_state, "--json")

    assert answer.code == 1
    assert answer.data["error"]["code"] == "X_JOB_ROW_STATUS_UNKNOWN"


def test_show_of_hostile_text_prints_no_control_character(queue, jobs) -> None:
    """Names, payloads, errors and tracebacks can do nothing to the terminal."""
    failure = Failure(error_class=HOSTILE, message=HOSTILE, traceback=f"one\n\ttwo {HOSTILE}")
    claim = queue.running(key=HOSTILE, payload='{"a": "\\u001b[2J\\u202e"}')
    queue.nack(claim, dead_letter=True, failure=failure)

    text, data = jobs("show", claim.id).out, jobs("show", claim.id, "--json").out

    assert all(char.isprintable() or char == "\n" for char in text)
    assert all(char.isprintable() or char == "\n" for char in data)
    assert "\\x1b]0;title\\x07\\n<script>" in text


def test_show_of_a_long_payload_cuts_the_text_and_not_the_json(queue, jobs) -> None:
    """A megabyte is not poured into a terminal, and nothing is missing for programs."""
    job_id = queue.enqueue(payload='{"text": "' + "x" * 100_000 + '"}').id

    text, data = jobs("show", job_id), jobs("show", job_id, "--json")

    assert len(text.out) < 10_000
    assert "more characters" in text.out
    assert len(data.data["job"]["payload"]["text"]) == 100_000


def test_show_of_an_id_that_is_nobodys_does_not_speak_of_one_tenant(jobs, queue) -> None:
    """The command looks in every tenant."""
    cause = jobs("show", "0198c2f4-7a10-7e51-9a52-3f8f2f6c1d20", "--json").data["error"]["cause"]

    assert cause.endswith("among the tenants that were asked")


def test_show_of_a_job_that_was_asked_to_stop_says_when(queue, jobs) -> None:
    """Among the facts, too."""
    job_id = queue.running().id
    jobs("cancel", job_id)

    assert "\nasked to end " in jobs("show", job_id).out
