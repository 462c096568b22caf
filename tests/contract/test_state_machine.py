"""Any sequence of verbs: what a driver holds is what the model says it must hold."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from contextlib import suppress
from typing import Any
from uuid import UUID

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ultimate_jobs.errors import JobDuplicate, UltimateJobsError
from ultimate_jobs.ids import new_id
from ultimate_jobs.records import JobRecord
from ultimate_jobs.types import (
    ANY_TENANT,
    Claim,
    ClaimRequest,
    Completion,
    Nack,
    OnConflict,
    WriteAnswer,
    Written,
)

from .harness import BOOM, Harness
from .model import FINAL, LIVE, Model, Moment, Row

CI = bool(os.environ.get("CI"))
EXAMPLES = 30
STEPS = 40

# Everything that waits is a multiple of seconds apart, so that the milliseconds an example takes on
# a real clock decide nothing.
DELAYS = st.sampled_from([0, 0, 5_000, 31_000])
MOVES = st.sampled_from([1_000, 5_000, 16_000, 61_000])
PICKS = st.integers(min_value=0, max_value=10_000)
TENANTS = st.sampled_from([None, "acme"])
SCOPES = st.sampled_from([ANY_TENANT, ANY_TENANT, None, "acme"])
# Empty lists of names and queues are tested elsewhere; here most claims should claim.
NAMES = st.sampled_from([("a", "b"), ("a", "b"), ("a",), ("b",)])
MOSTLY_RERUN = st.sampled_from([OnConflict.RERUN, OnConflict.RERUN, *OnConflict])
REQUESTS = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(["a", "b"]),
            "tenant": TENANTS,
            "key": st.sampled_from(["k1", "k2"]),
            "delay_ms": DELAYS,
            "priority": st.sampled_from([0, 0, 5]),
            "payload": st.sampled_from(['{"n": 1}', '{"n": 2}']),
        }
    ),
    min_size=1,
    max_size=3,
)
NACKS = st.fixed_dictionaries(
    {
        "counts_as_attempt": st.booleans(),
        "park": st.booleans(),
        "dead_letter": st.booleans(),
        "delay_ms": DELAYS,
        "failure": st.sampled_from([None, BOOM]),
    }
)


class Jobs(RuleBasedStateMachine):
    """Random verbs against one driver; a fresh queue and fresh names for each example."""

    harness: Harness

    def __init__(self) -> None:
        super().__init__()
        self.harness.renew()
        self.driver = self.harness.driver
        self.model = Model(
            max_lost_leases=self.harness.max_lost_leases, lease_ttl_ms=self.harness.lease_ttl_ms
        )
        self.claims: list[Claim] = []
        self.workers: list[UUID] = []
        self.tokens: dict[UUID, int] = {}
        self.start_worker()

    def _name(self, name: str) -> str:
        return f"{self.harness.name}_{name}"

    def _pick_job(self, pick: int, *, mostly: Collection[str]) -> Row:
        """Pick mostly a job in one of these states, now and then any."""
        rows = list(self.model.rows.values())
        fitting = [row for row in rows if row.state in mostly]
        among = fitting if fitting and pick % 4 else rows
        return among[pick % len(among)]

    def _pick_claim(self, pick: int) -> Claim:
        """Pick mostly a claim that still stands, now and then any that ever was."""
        standing = [c for c in self.claims if self.model.owned(c.id, c.worker, c.token)]
        among = standing if standing and pick % 4 else self.claims
        return among[pick % len(among)]

    @rule()
    def start_worker(self) -> None:
        with self.harness.timed() as span:
            worker = self.harness.start_worker(self._name("a"), self._name("b"))
        self.workers.append(worker)
        self.model.register(worker, Moment(span.start, span.end))

    @initialize(pick=PICKS)
    def begin_with_work(self, pick: int) -> None:
        keys = [(name, tenant) for name in ("a", "b") for tenant in (None, "acme")]
        self.enqueue_many(
            [{"name": name, "tenant": tenant, "key": "k1"} for name, tenant in keys],
            OnConflict.EXISTING,
        )
        self.claim_many(pick, 3, ("a", "b"))

    @rule(asked=REQUESTS, on_conflict=st.sampled_from(OnConflict))
    def enqueue(self, asked: list[dict[str, Any]], on_conflict: OnConflict) -> None:
        self.enqueue_many(asked, on_conflict)

    @precondition(lambda self: self.model.rows)
    @rule(pick=PICKS, delay_ms=DELAYS, on_conflict=MOSTLY_RERUN)
    def enqueue_again(self, pick: int, delay_ms: int, on_conflict: OnConflict) -> None:
        held = self._pick_job(pick, mostly=["running"]).request
        again = {"tenant": held.tenant, "key": held.key, "delay_ms": delay_ms}
        name = held.name.rsplit("_", 1)[-1]
        self.enqueue_many([{**again, "name": name, "payload": '{"n": 3}'}], on_conflict)

    def enqueue_many(self, asked: list[dict[str, Any]], on_conflict: OnConflict) -> None:
        requests = [
            self.harness.request(**{**fields, "name": self._name(fields["name"])})
            for fields in asked
        ]
        answers = None
        with self.harness.timed() as span, suppress(JobDuplicate):
            answers = self.harness.ask(*requests, on_conflict=on_conflict)
        assert answers == self.model.enqueue(requests, on_conflict, Moment(span.start, span.end))

    # Sequences are short and most verbs need a claim that stands: it is given more than its share.
    @rule(pick=PICKS, milliseconds=MOVES)
    def claim_later(self, pick: int, milliseconds: int) -> None:
        self.advance(milliseconds)
        self.claim_many(pick, 3, ("a", "b"))

    @rule(pick=PICKS, limit=st.integers(1, 3), names=NAMES)
    def claim(self, pick: int, limit: int, names: tuple[str, ...]) -> None:
        self.claim_many(pick, limit, names)

    def claim_many(self, pick: int, limit: int, names: tuple[str, ...]) -> None:
        self.look()
        known = tuple(self._name(name) for name in names)
        worker = self.workers[pick % len(self.workers)]
        with self.harness.timed() as span:
            claims = self.driver.claim(
                ClaimRequest(worker, names=known, limit=limit, queues=(self.harness.queue,))
            )
        taken = [claim.id for claim in claims]
        due = self.model.claimable(known, Moment(span.start, span.end))
        sure = {job_id for job_id, is_due in due.items() if is_due or job_id in taken}
        assert len(taken) == min(limit, len(sure))
        self._check_order(taken, left=sure - set(taken))
        for claim in claims:
            self.model.claim(claim)
            row = self.model.rows[claim.id]
            assert (claim.token, claim.attempt) == (row.token, row.attempt)
            assert (claim.run_id, claim.lost_leases) == (row.run_id, row.lost)
            assert json.loads(claim.payload) == json.loads(row.request.payload)
        self.claims += claims

    def _check_order(self, taken: list[UUID], *, left: set[UUID]) -> None:
        """Priority beats all, and within one tenant and priority age decides.

        What waited takes its turn like a tenant of its own, so what is left out is compared only
        with its like.
        """
        rows = {job_id: self.model.rows[job_id] for job_id in (*taken, *left)}
        places = [self._place(job_id) for job_id in taken]
        assert [place[0] for place in places] == sorted(place[0] for place in places)
        for tenant in {row.request.tenant for row in rows.values()}:
            mine = [self._place(one) for one in taken if rows[one].request.tenant == tenant]
            assert mine == sorted(mine)
        for one in left:
            assert not any(self._place(one)[0] < self._place(other)[0] for other in taken)
            alike = [other for other in taken if self._kind(rows[other]) == self._kind(rows[one])]
            assert not any(self._place(one) < self._place(other) for other in alike)

    @staticmethod
    def _kind(row: Any) -> tuple[Any, ...]:
        return (row.request.tenant, row.state == "ready")

    def _place(self, job_id: UUID) -> tuple[int, Any, UUID]:
        row = self.model.rows[job_id]
        assert row.seen is not None
        return (-row.request.priority, row.seen.due_at, row.id)

    @precondition(lambda self: self.claims)
    @rule(pick=PICKS, result=st.sampled_from([None, '"done"']), by_another=st.integers(0, 9))
    def ack(self, pick: int, result: str | None, by_another: int) -> None:
        claim = self._pick_claim(pick)
        worker = self.workers[0] if by_another == 0 else claim.worker
        with self.harness.timed() as span:
            [answer] = self.driver.ack(worker, [Completion(claim.id, claim.token, result)])
        row = self.model.owned(claim.id, worker, claim.token)
        state = self.model.ack(row, result, Moment(span.start, span.end)) if row else None
        self._check_written(answer, claim, state)

    @precondition(lambda self: self.claims)
    @rule(pick=PICKS, flags=NACKS, by_another=st.integers(0, 9))
    def nack(self, pick: int, flags: dict[str, Any], by_another: int) -> None:
        claim = self._pick_claim(pick)
        worker = self.workers[0] if by_another == 0 else claim.worker
        nack = Nack(claim.id, claim.token, **flags)
        with self.harness.timed() as span:
            [answer] = self.driver.nack(worker, [nack])
        row = self.model.owned(claim.id, worker, claim.token)
        state = self.model.nack(row, nack, Moment(span.start, span.end)) if row else None
        self._check_written(answer, claim, state)

    def _check_written(self, answer: WriteAnswer, claim: Claim, state: str | None) -> None:
        outcome = Written.LOST if state is None else Written.DONE
        assert (answer.id, answer.token) == (claim.id, claim.token)
        assert (answer.outcome, answer.state) == (outcome, state)

    @precondition(lambda self: self.model.rows)
    @rule(pick=PICKS, tenant=SCOPES)
    def cancel(self, pick: int, tenant: Any) -> None:
        row = self._pick_job(pick, mostly=LIVE)
        with self.harness.timed() as span:
            answer = self.harness.cancel(row.id, tenant=tenant)
        assert answer.outcome == self.model.cancel(row.id, tenant, Moment(span.start, span.end))
        assert answer.state == (None if answer.outcome == "not_found" else row.state)

    @precondition(lambda self: self.model.rows)
    @rule(pick=PICKS, tenant=SCOPES, fresh=st.booleans())
    def retry(self, pick: int, tenant: Any, fresh: bool) -> None:
        row = self._pick_job(pick, mostly=FINAL)
        fresh_run_id = new_id() if fresh else None
        expected = self.model.refusal_of_retry(row.id, tenant, fresh=fresh)
        refused = None
        with self.harness.timed() as span:
            try:
                self.harness.retry(row.id, tenant=tenant, fresh_run_id=fresh_run_id)
            except UltimateJobsError as refusal:
                refused = refusal.code
        assert refused == expected
        if refused is None:
            self.model.retry(row.id, fresh_run_id, Moment(span.start, span.end))

    @rule(pick=PICKS)
    def heartbeat(self, pick: int) -> None:
        worker = self.workers[pick % len(self.workers)]
        with self.harness.timed() as span:
            answer = self.driver.heartbeat(worker)
        now = Moment(span.start, span.end)
        assert self.model.is_alive(worker, now) in (answer.alive, None)
        if answer.alive:
            self.model.register(worker, now)
            assert answer.cancel_requested == self.model.stop_requests(worker)

    @rule(pick=PICKS)
    def release(self, pick: int) -> None:
        worker = self.workers[pick % len(self.workers)]
        self.driver.leases.release(worker)
        self.model.release(worker)

    @rule(milliseconds=MOVES)
    def advance(self, milliseconds: int) -> None:
        self.harness.advance(milliseconds)

    @rule()
    def rescue(self) -> None:
        with self.harness.timed() as span:
            rescues = self.harness.rescue()
        now = Moment(span.start, span.end)
        # Earlier examples left running jobs behind; a sweep takes those as well.
        own = [rescue for rescue in rescues if rescue.id in self.model.rows]
        lost = self.model.abandoned(now)
        rescued = {rescue.id for rescue in own}
        assert len(rescued) == len(own)
        assert rescued == {i for i, is_alive in lost.items() if is_alive is False or i in rescued}
        for rescue in own:
            row = self.model.rows[rescue.id]
            assert (rescue.worker, rescue.token) == (row.worker, row.token)
            assert rescue.state == self.model.rescue(rescue.id, now)
            assert rescue.lost_leases == row.lost

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        self.look()
        seen = [row.seen for row in self.model.rows.values() if row.seen is not None]
        self.check_keys(seen)
        self.check_counters(seen)

    def check_keys(self, seen: list[JobRecord]) -> None:
        live = [(job.name, job.tenant, job.key) for job in seen if job.state in LIVE]
        assert len(live) == len(set(live))

    def check_counters(self, seen: list[JobRecord]) -> None:
        for job in seen:
            assert job.attempt >= 0
            assert job.token >= self.tokens.get(job.id, 0)
            self.tokens[job.id] = job.token

    def look(self) -> None:
        stored = {record.id: record for record in self.harness.find()}
        assert stored.keys() == self.model.rows.keys()
        for job_id, record in stored.items():
            row = self.model.rows[job_id]
            row.seen = record
            assert (record.state, record.run_id, record.worker) == (
                row.state,
                row.run_id,
                row.worker,
            )
            assert (record.attempt, record.token) == (row.attempt, row.token)
            assert (record.lost_leases, record.retry_count) == (row.lost, row.retries)
            assert (record.cancel_requested_at is not None) >= row.cancel
            assert record.rerun_requested is (row.rerun is not None)
            assert (record.finished_at is None) is (record.state in LIVE)
            assert record.result == row.result
            assert (record.last_error or "").startswith(row.last_error or "")
            assert (record.last_error is None) is (row.last_error is None)
            assert row.run_at.covers(record.run_at)
            assert row.due_at.covers(record.due_at)

    def teardown(self) -> None:
        for row in self.model.rows.values():
            assert self.harness.event_types(row.id) == row.events


def test_driver_under_any_sequence_of_verbs_agrees_with_the_model(
    driver: Harness, settings: Any
) -> None:
    """After every verb of any sequence, each stored job is what the model says."""
    # A low cap, so that short sequences reach it.
    settings.ULTIMATE_JOBS = {**getattr(settings, "ULTIMATE_JOBS", {}), "MAX_LOST_LEASES": 3}
    machine = type("Jobs", (Jobs,), {"harness": driver})

    run_state_machine_as_test(machine, settings=_bounds())


def _bounds() -> settings:
    return settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        derandomize=CI,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
