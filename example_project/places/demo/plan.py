"""What a run asks of the queue; the seed alone decides, so that two runs ask the same."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from example_project.places.demo.options import Options

# One place in a hundred is also looked up at the geocoder, which fails twice for each.
ADDRESS_SHARE = 100

Inputs = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class TenantPlan:
    """The inputs that one tenant enqueues; ``duplicates`` repeat some of ``index``."""

    tenant: str
    index: Inputs
    addresses: Inputs
    boundaries: Inputs
    duplicates: Inputs


def make_plan(tenants: Sequence[str], codes: Sequence[str], options: Options) -> list[TenantPlan]:
    """Return what each tenant asks for: every place, and its share of the other jobs."""
    chance = random.Random(options.seed)
    plans = [
        TenantPlan(
            tenant=tenant,
            index=[{"code": code} for code in codes],
            addresses=_addresses(chance, codes),
            boundaries=[],
            duplicates=[],
        )
        for tenant in tenants
    ]
    for _ in range(options.duplicates):
        plan = chance.choice(plans)
        plan.duplicates.append({"code": chance.choice(codes)})
    for part in range(options.poison):
        plan = chance.choice(plans)
        plan.boundaries.append({"code": chance.choice(codes), "part": part})
    return plans


def _addresses(chance: random.Random, codes: Sequence[str]) -> Inputs:
    number = max(1, len(codes) // ADDRESS_SHARE)
    return [{"code": code} for code in sorted(chance.sample(list(codes), number))]
