"""Looks into the built package, and uses the installed one in an empty project."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

SETTINGS = """
import os
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

url = urlsplit(os.environ["DATABASE_URL"])
query = parse_qs(url.query)
BASE_DIR = Path(__file__).resolve().parent
SECRET_KEY = "only for this check"
USE_TZ = True
ROOT_URLCONF = "urls"
STATIC_URL = "static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes",
    "django.contrib.messages", "django.contrib.sessions", "django.contrib.staticfiles",
    "pgtrigger", "ultimate_jobs", "shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [{
    "BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True,
    "OPTIONS": {"context_processors": [
        "django.template.context_processors.request",
        "django.contrib.auth.context_processors.auth",
        "django.contrib.messages.context_processors.messages"]},
}]
DATABASES = {"default": {
    "ENGINE": "django.db.backends.postgresql", "NAME": url.path.lstrip("/"),
    "USER": unquote(url.username or ""), "PASSWORD": unquote(url.password or ""),
    "HOST": (query.get("host") or [url.hostname or ""])[0], "PORT": str(url.port or ""),
}}
"""

JOBS = """
from ultimate_jobs import job


@job(key="greeting:{name}")
def greet(ctx, name: str) -> str:
    return f"Hello, {name}!"
"""

MANAGE = """
import os
import sys

from django.core.management import execute_from_command_line

os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
sys.path.insert(0, os.getcwd())
execute_from_command_line(sys.argv)
"""

ENQUEUE = "from shop.jobs import greet; print(greet.enqueue(name='Ada').id)"


def contents(wheel: str, sdist: str) -> int:
    """Compare the data files of the built package with those of the source tree."""
    root = Path(__file__).resolve().parent.parent
    inside = set(zipfile.ZipFile(wheel).namelist())
    source = {
        str(path.relative_to(root))
        for path in (root / "ultimate_jobs").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    missing = sorted(source - inside)
    strange = sorted(name for name in inside if not name.startswith("ultimate_jobs"))
    kinds = {
        "py.typed": "ultimate_jobs/py.typed",
        "SQL": "ultimate_jobs/sql/*.sql",
        "migrations": "ultimate_jobs/migrations/0*.py",
        "templates": "ultimate_jobs/templates/**/*.html",
        "static files": "ultimate_jobs/static/**/*.css",
    }
    absent = [
        kind
        for kind, pattern in kinds.items()
        if not any(str(path.relative_to(root)) in inside for path in root.glob(pattern))
    ]
    for problem, names in (("missing", missing), ("strange", strange), ("no", absent)):
        for name in names:
            print(f"the wheel: {problem} {name}")
    with tarfile.open(sdist) as archive:
        packed = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    needed = [
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        "manage.py",
        "tests/settings.py",
        "docs/conf.py",
    ]
    for name in needed:
        if name not in packed:
            print(f"the sdist: missing {name}")
            missing.append(name)
    print(f"wheel: {len(inside)} files; sdist: {len(packed)} files")
    return 1 if missing or strange or absent else 0


def project(folder: str) -> int:
    """Make an empty project around the installed package, and run one job in it."""
    place = Path(folder)
    (place / "shop").mkdir(parents=True)
    (place / "shop" / "__init__.py").touch()
    (place / "shop" / "jobs.py").write_text(JOBS)
    (place / "settings.py").write_text(SETTINGS)
    (place / "urls.py").write_text(
        "from django.contrib import admin\nfrom django.urls import path\n"
        'urlpatterns = [path("admin/", admin.site.urls)]\n'
    )
    (place / "manage.py").write_text(MANAGE)
    where = _run(place, "shell", "-v0", "-c", "import ultimate_jobs; print(ultimate_jobs.__file__)")
    if "site-packages" not in where:
        print(f"the project uses the source tree and not the wheel: {where}")
        return 1
    _run(place, "migrate", "-v0")
    _run(place, "makemigrations", "--check", "--dry-run")
    _run(place, "check", "--fail-level", "WARNING")
    _run(place, "collectstatic", "--dry-run", "--noinput", "-v0", "--settings", "settings_static")
    job_id = _run(place, "shell", "-v0", "-c", ENQUEUE).strip().splitlines()[-1]
    _run(place, "runjobs", "--burst")
    shown = json.loads(_run(place, "jobs", "show", job_id, "--json"))
    print(json.dumps(shown)[:300])
    if '"completed"' not in json.dumps(shown) or "Hello, Ada!" not in json.dumps(shown):
        print("the job did not complete")
        return 1
    print("the installed wheel: migrated, checked, and ran one job")
    return 0


def _run(place: Path, *arguments: str) -> str:
    (place / "settings_static.py").write_text(
        'from settings import *\nSTATIC_ROOT = "static-out"\n'
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    print(f"  manage.py {' '.join(arguments)[:70]}: exit {done.returncode}")
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n")
        sys.exit(1)
    return done.stdout


if __name__ == "__main__":
    verbs = {"contents": contents, "project": project}
    sys.exit(verbs[sys.argv[1]](*sys.argv[2:]))
