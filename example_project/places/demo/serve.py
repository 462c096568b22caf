"""Serves the admin on this machine only, with a user that ends with it."""

from __future__ import annotations

import errno
import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager

from django.contrib.auth import get_user_model
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.servers import basehttp

from example_project.places.demo.console import Console
from example_project.places.demo.options import HOST, port_taken
from example_project.places.demo.tenants import user_name
from example_project.places.demo.worker import WorkerProcess


def serve_admin(port: int, run: str, console: Console) -> None:
    """Serve until Ctrl-C; a worker stays, so that what is retried in the admin also runs."""
    with _demo_user(run) as (name, password), closing(WorkerProcess()):

        def welcome(bound: int) -> None:
            for line in _welcome(bound, name, password):
                console.say(line)

        try:
            handler = StaticFilesHandler(basehttp.get_internal_wsgi_application())
            basehttp.run(HOST, port, handler, threading=True, on_bind=welcome)
        except KeyboardInterrupt:
            console.say("Stopped serving.")
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise port_taken(port) from None


def _welcome(port: int, name: str, password: str) -> Iterator[str]:
    yield ""
    yield f"The admin is at http://{HOST}:{port}/admin/"
    yield f"  user      {name}"
    yield f"  password  {password}"
    yield "Ctrl-C ends it, and this user with it."


@contextmanager
def _demo_user(run: str) -> Iterator[tuple[str, str]]:
    # A new user with a random password: no account that exists is ever opened or changed.
    name, password = user_name(run), secrets.token_urlsafe(12)
    user = get_user_model().objects.create_superuser(username=name, password=password)
    try:
        yield name, password
    finally:
        user.delete()
