"""One job's page: all that is stored of it, in a bounded size and number of statements."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from tests.admin.conftest import LIST, page_of, write_unknown_state
from ultimate_jobs.admin.trace import MOST_EVENTS
from ultimate_jobs.models import Job, JobEvent
from ultimate_jobs.types import OnConflict


def text_of(viewer, job_id: object) -> str:
    page = viewer.get(page_of(job_id))
    assert page.status_code == 200
    return page.content.decode()


def test_page_shows_payload_result_and_worker(queue, viewer) -> None:
    """Inputs and outcome as readable JSON, and who ran it."""
    claim = queue.running(payload='{"n": 7, "name": "Zoë"}')
    queue.complete(claim, result='{"rows": 12}')

    text = text_of(viewer, claim.id)

    assert "&quot;n&quot;: 7" in text
    assert "Zoë" in text
    assert "&quot;rows&quot;: 12" in text
    assert str(claim.worker) in text
    assert "host-1:4711" in text


def test_page_shows_each_attempt_with_its_traceback(queue, viewer) -> None:
    """Every failure, in the order in which they happened."""
    claim = queue.running(max_attempts=2)
    queue.fail(claim)
    claim = queue.claim_one(claim.worker)
    queue.bury(claim)

    page = viewer.get(page_of(claim.id))

    moments = page.context["trace"].moments
    assert [(one.what, one.attempt) for one in moments] == [
        ("created", None),
        ("failed", 1),
        ("dead", 2),
    ]
    assert page.content.decode().count("Traceback: boom") == 2


def test_page_of_a_running_job_tells_claim_and_lease(queue, viewer) -> None:
    """A job that succeeds at once writes no event; its own row tells."""
    claim = queue.running()

    page = viewer.get(page_of(claim.id))

    assert [one.what for one in page.context["trace"].moments] == ["created", "claimed"]
    assert "It runs since" in page.context["trace"].why
    assert "Lease until" in page.content.decode()


def test_page_of_a_waiting_job_tells_why_it_waits(queue, viewer) -> None:
    """The sentence that ``jobs show`` prints."""
    job_id = queue.enqueue().id

    assert "and no worker is alive." in text_of(viewer, job_id)


def test_page_of_a_job_that_runs_again_links_the_one_that_follows(queue, viewer) -> None:
    """From a run to the run that came of it."""
    claim = queue.running(key="one")
    queue.enqueue(key="one", on_conflict=OnConflict.RERUN)
    before = text_of(viewer, claim.id)
    queue.complete(claim)
    [following] = [job for job in queue.find() if job.id != claim.id]

    after = text_of(viewer, claim.id)

    assert "one more run follows" in before
    assert page_of(following.id) in after


def test_page_of_an_unknown_state_is_shown_and_says_so(queue, viewer) -> None:
    """Everything but the meaning of the state is known."""
    job_id = queue.enqueue(key="still shown").id
    write_unknown_state(job_id)

    text = text_of(viewer, job_id)

    assert "paused</span> unknown to this release" in text
    assert "x_jobs.state holds &#x27;paused&#x27;" in text
    assert "still shown" in text


@pytest.mark.parametrize("wrong", [uuid4(), "seven", "a/b", "_3Cscript_3E"])
def test_page_of_no_job_leads_back_to_the_list(queue, viewer, wrong: object) -> None:
    """Nothing fails on an old link or a mistyped id."""
    page = viewer.get(page_of(wrong), follow=True)

    assert page.redirect_chain == [(reverse(LIST), 302)]
    assert "There is no job" in page.content.decode()


def test_page_takes_the_same_statements_for_any_history(queue, viewer) -> None:
    """Session, user, permissions twice; the job, its events, the workers, the paused queues."""
    job_id = queue.enqueue().id
    with CaptureQueriesContext(connection) as short:
        text_of(viewer, job_id)
    run_id = queue.get(job_id).run_id
    JobEvent.objects.bulk_create(
        JobEvent(job_id=job_id, run_id=run_id, type="failed", detail={"n": n}) for n in range(50)
    )
    for _ in range(10):
        queue.start_worker()

    with CaptureQueriesContext(connection) as long:
        text_of(viewer, job_id)

    assert len(long) == len(short) <= 8


def test_page_of_a_long_history_shows_the_newest_events(queue, viewer) -> None:
    """Twenty thousand events do not freeze a browser."""
    job_id = queue.enqueue().id
    run_id = queue.get(job_id).run_id
    JobEvent.objects.bulk_create(
        JobEvent(job_id=job_id, run_id=run_id, type="failed", detail={"n": n})
        for n in range(MOST_EVENTS + 5)
    )

    page = viewer.get(page_of(job_id))

    moments = page.context["trace"].moments
    assert len(moments) == MOST_EVENTS + 1
    assert moments[-1].facts[0].text == str(MOST_EVENTS + 4)
    assert "Older events are not shown." in page.content.decode()


def test_page_of_large_columns_is_cut_by_the_database(queue, viewer) -> None:
    """A megabyte in each column makes neither a large page nor a large read."""
    large = '{"text": "' + "x" * 1_000_000 + '"}'
    claim = queue.running(payload=large)
    queue.complete(claim, result=large)
    Job.objects.filter(id=claim.id).update(last_error="y" * 1_000_000)

    with CaptureQueriesContext(connection) as captured:
        text = text_of(viewer, claim.id)

    assert len(text) < 150_000
    assert f"manage.py jobs show {claim.id} --json" in text
    assert len(captured) <= 8
    [read] = [one["sql"] for one in captured if 'FROM "x_jobs"' in one["sql"]]
    assert '"x_jobs"."payload",' not in read


def test_page_of_a_job_without_worker_has_no_empty_section(queue, viewer) -> None:
    """What nobody has claimed tells nothing of a worker."""
    job_id = queue.enqueue().id

    assert viewer.get(page_of(job_id)).context["trace"].worker == []
