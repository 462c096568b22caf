"""Settings of the test suite, and of the worker processes that it starts."""

from __future__ import annotations

import json
import os

from example_project.databases import databases

SECRET_KEY = "only for tests"
USE_TZ = True
TIME_ZONE = "Europe/Berlin"
# Worker processes of a test are given theirs: short leases, for example.
ULTIMATE_JOBS = json.loads(os.environ.get("ULTIMATE_JOBS_TEST", "{}"))
ROOT_URLCONF = "tests.urls"
DATABASES = databases(others=("other",))
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "pgtrigger",
    "ultimate_jobs",
    "tests.app",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
STATIC_URL = "static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
