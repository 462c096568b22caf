"""One worker's work through the driver: the statements that ship, whatever their parameters."""

from __future__ import annotations

from uuid import uuid4

from tests.migrations.database import ALIAS
from ultimate_jobs.drivers.postgres import PostgresDriver
from ultimate_jobs.ids import new_id
from ultimate_jobs.types import (
    ANY_TENANT,
    Claim,
    ClaimRequest,
    Completion,
    EnqueueRequest,
    Failure,
    Nack,
    OnConflict,
    WorkerCard,
)

FAILURE = Failure(error_class="ValueError", message="no", traceback="Traceback ...")


class Work:
    """Takes ``count`` jobs from one transition to the next."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._driver = PostgresDriver(ALIAS, lease_ttl_ms=60_000)
        self._worker = uuid4()
        self._claims: list[Claim] = []
        self._driver.leases.register(
            WorkerCard(
                worker=self._worker, names=("send",), queues=None, hostname="h", pid=1, threads=1
            )
        )

    def enqueue(self) -> None:
        self._ask(OnConflict.EXISTING)

    def enqueue_later(self) -> None:
        self._ask(OnConflict.EXISTING, delay_ms=60_000)

    def ask_again(self) -> None:
        """Ask that each running job is followed by another run."""
        self._ask(OnConflict.RERUN)

    def claim(self) -> None:
        request = ClaimRequest(
            worker=self._worker, names=("send",), limit=self._count, queues=("q",)
        )
        self._claims = self._driver.claim(request)

    def heartbeat(self) -> None:
        for _ in range(self._count):
            self._driver.heartbeat(self._worker)

    def complete(self) -> None:
        self._driver.ack(self._worker, [Completion(id=c.id, token=c.token) for c in self._claims])

    def shed(self) -> None:
        self._give_back(counts_as_attempt=False)

    def fail(self) -> None:
        self._give_back(failure=FAILURE)

    def park(self) -> None:
        self._give_back(counts_as_attempt=False, park=True)

    def die(self) -> None:
        self._give_back(dead_letter=True, failure=FAILURE)

    def rescue(self) -> None:
        self._driver.leases.rescue(limit=self._count)

    def cancel(self) -> None:
        self._driver.cancel(self._ids, tenant=ANY_TENANT, by="operator")

    def _ask(self, on_conflict: OnConflict, *, delay_ms: int = 0) -> None:
        requests = [
            EnqueueRequest(
                id=new_id(),
                run_id=new_id(),
                name="send",
                queue="q",
                tenant="acme",
                key=f"invoice:{number}",
                payload="{}",
                max_attempts=5,
                delay_ms=delay_ms,
            )
            for number in range(self._count)
        ]
        self._ids = [request.id for request in requests]
        self._driver.enqueue(requests, on_conflict=on_conflict)

    def _give_back(
        self,
        *,
        counts_as_attempt: bool = True,
        park: bool = False,
        dead_letter: bool = False,
        failure: Failure | None = None,
    ) -> None:
        self._driver.nack(
            self._worker,
            [
                Nack(
                    id=claim.id,
                    token=claim.token,
                    counts_as_attempt=counts_as_attempt,
                    park=park,
                    dead_letter=dead_letter,
                    failure=failure,
                )
                for claim in self._claims
            ],
        )
