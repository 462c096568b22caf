"""A process that changes data and enqueues, one key per transaction; started by a test.

Writes each call to a file, with the version it committed and the answer it got.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

import django
from django.db import transaction

django.setup()

from tests.app.jobs import read_documents  # noqa: E402
from tests.app.models import Document  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--who", required=True)
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--on-conflict", required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    keys = [f"key{number}" for number in range(options.keys)]
    random.Random(options.who).shuffle(keys)
    calls = [call(key, options.who, options.on_conflict) for key in keys]
    options.out.write_text(json.dumps(calls))


def call(key: str, who: str, on_conflict: str) -> dict[str, object]:
    with transaction.atomic():
        document, _ = Document.objects.get_or_create(name=f"{key}/{who}")
        document.version += 1
        document.save()
        answer = read_documents.using(on_conflict=on_conflict).enqueue(name=key)
    return {
        "key": key,
        "who": who,
        "version": document.version,
        "id": str(answer.id),
        "deduped": answer.deduped,
        "promised": on_conflict == "rerun" or answer.state != "running",
    }


if __name__ == "__main__":
    main()
