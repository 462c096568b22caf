"""The jobs of the example: one works, one meets a flaky service, one cannot succeed."""

from __future__ import annotations

from django.core.cache import cache
from django.db import transaction

from example_project.places import boundaries, geocoder, names
from example_project.places.models import Address, Effect, Kind, SearchEntry, Subdivision, Tenant
from ultimate_jobs import JobContext, Retry, job

QUEUE = "places"
LANGUAGE_SECONDS = 60


@job(key="subdivision:{code}", name="places.index_subdivision", queue=QUEUE)
def index_subdivision(ctx: JobContext, code: str) -> str:
    """Make a place searchable for the tenant, in the tenant's language."""
    name = Subdivision.objects.get(pk=code).name_in(_language(ctx.tenant))
    entry = SearchEntry(
        tenant_id=ctx.tenant,
        subdivision_id=code,
        name=name,
        folded=names.fold(name),
        slug=names.slug(name),
        initials=names.initials(name),
        scripts=names.scripts(name),
    )
    # One transaction: an effect never stands without what it speaks of.
    with transaction.atomic():
        _store(entry, ["name", "folded", "slug", "initials", "scripts"])
        _leave_effect(ctx, Kind.INDEX, code)
    return entry.slug


@job(
    key="address:{code}",
    name="places.find_address",
    queue=QUEUE,
    # Few, and somebody waits for them: not behind a whole index.
    priority=10,
    retry=Retry(attempts=5, backoff="linear", delay=0.2, jitter=0),
)
def find_address(ctx: JobContext, code: str) -> str:
    """Ask the geocoder for a place's address; it fails twice before it answers."""
    text = geocoder.address(code, attempt=ctx.attempt)
    with transaction.atomic():
        _store(Address(tenant_id=ctx.tenant, subdivision_id=code, text=text), ["text"])
        _leave_effect(ctx, Kind.ADDRESS, code)
    return text


@job(
    key="boundary:{code}:{part}",
    name="places.import_boundary",
    queue=QUEUE,
    priority=10,
    retry=Retry(attempts=3, backoff="fixed", delay=0.2, jitter=0),
)
def import_boundary(ctx: JobContext, code: str, part: int) -> int:
    """Import a boundary file that is corrupt: after its attempts the job is dead, and shown."""
    corners = boundaries.read(code, part)
    _leave_effect(ctx, Kind.BOUNDARY, code)
    return len(corners)


def _language(tenant: str | None) -> str:
    """A tenant has thousands of jobs in a row, and hardly ever another language."""
    return cache.get_or_set(
        f"places.language:{tenant}",
        lambda: Tenant.objects.get(pk=tenant).language,
        timeout=LANGUAGE_SECONDS,
    )


def _store(row: SearchEntry | Address, fields: list[str]) -> None:
    """Insert the row, or update the tenant's earlier one: the same job may run again."""
    type(row).objects.bulk_create(
        [row],
        update_conflicts=True,
        unique_fields=["tenant", "subdivision"],
        update_fields=fields,
    )


def _leave_effect(ctx: JobContext, kind: Kind, subject: str) -> None:
    Effect.objects.create(
        job_id=ctx.job_id, tenant_id=ctx.tenant, kind=kind, subject=subject, attempt=ctx.attempt
    )
