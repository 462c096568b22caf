"""Settings of the example project: a demo on this machine, not a template for a public site."""

from __future__ import annotations

import os

from example_project.databases import databases

# In the repository on purpose: this project serves 127.0.0.1 only. A real site reads its own.
SECRET_KEY = os.environ.get("DJANGO_SECRET_KEY", "demo-only: everybody knows this key")
DEBUG = os.environ.get("DJANGO_DEBUG") == "1"
# A page elsewhere cannot reach the demo by pointing a name of its own at 127.0.0.1.
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]"]

DATABASES = databases()
# psycopg's own default, which Django turns off because some poolers cannot do it: a statement that
# is sent for the fifth time is planned for the last time. It makes an enqueue a quarter cheaper.
DATABASES["default"].setdefault("OPTIONS", {}).setdefault("prepare_threshold", 5)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "pgtrigger",
    "ultimate_jobs",
    "example_project.places",
    "example_project.bench",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
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
ROOT_URLCONF = "example_project.urls"
STATIC_URL = "static/"

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"

# Cookies of one host are shared between its ports: do not end the session of another project.
SESSION_COOKIE_NAME = "ultimate_jobs_demo_session"
CSRF_COOKIE_NAME = "ultimate_jobs_demo_csrf"
SESSION_COOKIE_SAMESITE = "Strict"
CSRF_COOKIE_SAMESITE = "Strict"
SESSION_EXPIRE_AT_BROWSER_CLOSE = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
