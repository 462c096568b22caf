"""The tables of the places app. New tables only: no lock that anyone waits for."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Subdivision",
            fields=[
                ("code", models.CharField(max_length=10, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=200)),
                ("country", models.CharField(db_index=True, max_length=2)),
                ("type", models.CharField(max_length=80)),
                ("parent_code", models.CharField(blank=True, max_length=10)),
                (
                    "names",
                    models.JSONField(
                        default=dict, help_text="Its name by language, where it differs."
                    ),
                ),
            ],
            options={
                "ordering": ["code"],
            },
        ),
        migrations.CreateModel(
            name="Tenant",
            fields=[
                ("slug", models.SlugField(max_length=63, primary_key=True, serialize=False)),
                (
                    "language",
                    models.CharField(
                        help_text="Its search index is in this language.", max_length=10
                    ),
                ),
                (
                    "run",
                    models.CharField(
                        blank=True,
                        db_index=True,
                        help_text="The demo run that made it, if one did.",
                        max_length=16,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Request",
            fields=[
                ("job_id", models.UUIDField(primary_key=True, serialize=False)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("index", "index a subdivision"),
                            ("address", "ask the geocoder for an address"),
                            ("boundary", "import a boundary file"),
                        ],
                        max_length=20,
                    ),
                ),
                ("subject", models.CharField(max_length=40)),
                (
                    "accepted_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="requests",
                        to="places.tenant",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Effect",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("job_id", models.UUIDField(db_index=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("index", "index a subdivision"),
                            ("address", "ask the geocoder for an address"),
                            ("boundary", "import a boundary file"),
                        ],
                        max_length=20,
                    ),
                ),
                ("subject", models.CharField(max_length=40)),
                ("attempt", models.IntegerField()),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="effects",
                        to="places.tenant",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="SearchEntry",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                ("folded", models.CharField(max_length=400)),
                ("slug", models.CharField(max_length=400)),
                ("initials", models.CharField(max_length=40)),
                (
                    "scripts",
                    models.JSONField(
                        default=dict, help_text="Letters of the name by writing system."
                    ),
                ),
                (
                    "subdivision",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="entries",
                        to="places.subdivision",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="entries",
                        to="places.tenant",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "search entries",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "subdivision"), name="places_one_entry_per_tenant"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Address",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("text", models.CharField(max_length=600)),
                (
                    "subdivision",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="addresses",
                        to="places.subdivision",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="addresses",
                        to="places.tenant",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "addresses",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "subdivision"), name="places_one_address_per_tenant"
                    )
                ],
            },
        ),
    ]
