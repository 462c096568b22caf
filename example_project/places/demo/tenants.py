"""The tenants of a run: each is named after a river, and works in a language spoken there."""

from __future__ import annotations

from django.contrib.auth import get_user_model
from django.db.models import Exists, OuterRef

from example_project.places.models import Effect, Request, Tenant
from ultimate_jobs.drivers import current_driver

# pycountry ships names of most places in these languages; together they have a dozen scripts.
RIVERS = {
    "dnipro": "uk",
    "ganges": "hi",
    "yangtze": "zh_CN",
    "mekong": "lo",
    "kaveri": "ta",
    "kura": "ka",
    "shinano": "ja",
    "chao-phraya": "th",
    "jordan": "he",
    "aliakmon": "el",
    "han": "ko",
    "vistula": "pl",
}
LANGUAGES = tuple(RIVERS.values())
CHUNK = 1000


def make_tenants(run: str, number: int) -> list[str]:
    """Make the tenants of a run and return their slugs, which no other run or user has."""
    rivers = list(RIVERS.items())
    made = []
    for index in range(number):
        river, language = rivers[index % len(rivers)]
        lap = index // len(rivers)
        slug = f"{river}-{lap + 1}-{run}" if lap else f"{river}-{run}"
        made.append(Tenant(slug=slug, language=language, run=run))
    Tenant.objects.bulk_create(made)
    return [tenant.slug for tenant in made]


def forget_earlier_runs() -> int:
    """Remove what earlier runs of the demo made, and cancel what they left waiting.

    Their finished jobs stay in the queue's history. Only tenants that a run made are touched.
    """
    earlier = list(Tenant.objects.exclude(run="").order_by("slug"))
    for tenant in earlier:
        _cancel_unfinished(tenant.slug)
    runs = {tenant.run for tenant in earlier}
    get_user_model().objects.filter(username__in=[user_name(run) for run in runs]).delete()
    Tenant.objects.filter(slug__in=[tenant.slug for tenant in earlier]).delete()
    return len(runs)


def user_name(run: str) -> str:
    """Return the name of a run's admin user."""
    return f"demo-{run}"


def _cancel_unfinished(tenant: str) -> None:
    """Cancel the tenant's jobs that left no effect; on those that ended, this changes nothing."""
    effects = Effect.objects.filter(job_id=OuterRef("job_id"))
    unfinished = Request.objects.filter(~Exists(effects), tenant_id=tenant)
    ids = list(unfinished.order_by("job_id").values_list("job_id", flat=True))
    for start in range(0, len(ids), CHUNK):
        current_driver().cancel(ids[start : start + CHUNK], tenant=tenant, by="manage.py demo")
