"""Tenants, the places of ISO 3166-2 that they share, and what their jobs made of them."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class Tenant(models.Model):
    """A customer; ``slug`` is the tenant of its jobs."""

    slug = models.SlugField(primary_key=True, max_length=63)
    language = models.CharField(max_length=10, help_text="Its search index is in this language.")
    run = models.CharField(
        max_length=16, blank=True, db_index=True, help_text="The demo run that made it, if one did."
    )

    def __str__(self) -> str:
        return self.slug


class Subdivision(models.Model):
    """A province, state or district of ISO 3166-2; every tenant reads the same rows."""

    code = models.CharField(primary_key=True, max_length=10)
    name = models.CharField(max_length=200)
    country = models.CharField(max_length=2, db_index=True)
    type = models.CharField(max_length=80)
    parent_code = models.CharField(max_length=10, blank=True)
    names = models.JSONField(default=dict, help_text="Its name by language, where it differs.")

    class Meta:
        ordering = ["code"]

    def __str__(self) -> str:
        return f"{self.code} {self.name}"

    def name_in(self, language: str) -> str:
        """Return the name in a language, or the name that ISO gives it."""
        return self.names.get(language, self.name)


class SearchEntry(models.Model):
    """What a tenant's search knows of a place; its jobs write it."""

    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="entries")
    subdivision = models.ForeignKey(Subdivision, models.CASCADE, related_name="entries")
    name = models.CharField(max_length=200)
    folded = models.CharField(max_length=400)
    slug = models.CharField(max_length=400)
    initials = models.CharField(max_length=40)
    scripts = models.JSONField(default=dict, help_text="Letters of the name by writing system.")

    class Meta:
        verbose_name_plural = "search entries"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "subdivision"], name="places_one_entry_per_tenant"
            )
        ]

    def __str__(self) -> str:
        return self.name


class Address(models.Model):
    """A place's full address, as the geocoder answered for a tenant."""

    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="addresses")
    subdivision = models.ForeignKey(Subdivision, models.CASCADE, related_name="addresses")
    text = models.CharField(max_length=600)

    class Meta:
        verbose_name_plural = "addresses"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "subdivision"], name="places_one_address_per_tenant"
            )
        ]

    def __str__(self) -> str:
        return self.text


class Kind(models.TextChoices):
    """What a job does, as requests and effects name it."""

    INDEX = "index", "index a subdivision"
    ADDRESS = "address", "ask the geocoder for an address"
    BOUNDARY = "boundary", "import a boundary file"


class Request(models.Model):
    """One accepted enqueue, written in the transaction that enqueued it.

    The app's own account: with it and ``Effect``, SQL tells what was lost without asking the queue.
    """

    job_id = models.UUIDField(primary_key=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="requests")
    kind = models.CharField(max_length=20, choices=Kind.choices)
    subject = models.CharField(max_length=40)
    accepted_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"


class Effect(models.Model):
    """One execution of a body that had its effect, written in that effect's transaction."""

    job_id = models.UUIDField(db_index=True)
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="effects")
    kind = models.CharField(max_length=20, choices=Kind.choices)
    subject = models.CharField(max_length=40)
    attempt = models.IntegerField()
    at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"
