"""Finds, makes and drops the databases of a CI run; its Python must have psycopg."""

from __future__ import annotations

import getpass
import os
import subprocess
import sys
from pathlib import Path

import psycopg

PLACE = "127.0.0.1:5432"
# Who might be let in: the present user, or the superuser of a usual container image.
WHO = (f"{getpass.getuser()}@", "postgres@", "postgres:postgres@")
OLDEST = 150000


def find() -> int:
    """Print the URL of a server that lets us make databases."""
    for who in WHO:
        url = f"postgresql://{who}{PLACE}/postgres"
        try:
            with psycopg.connect(url, connect_timeout=3) as connection:
                may = connection.execute(
                    "select rolcreatedb or rolsuper from pg_roles where rolname = current_user"
                ).fetchone()
                is_new_enough = connection.info.server_version >= OLDEST
        except psycopg.OperationalError:
            continue
        if is_new_enough and may and may[0]:
            print(url)
            return 0
    return 1


def create(server: str, name: str) -> int:
    """Make a database and print its URL."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'create database "{name}"')
    print(server.rsplit("/", 1)[0] + f"/{name}")
    return 0


def drop(server: str, name: str) -> int:
    """Drop a database, and what a test run that was cut short made beside it."""
    with psycopg.connect(server, autocommit=True) as connection:
        for one in (name, f"test_{name}", f"{name}_other", f"test_{name}_other"):
            connection.execute(f'drop database if exists "{one}" with (force)')
    return 0


def version(server: str) -> int:
    """Print what answers there."""
    with psycopg.connect(server) as connection:
        row = connection.execute("show server_version").fetchone()
    print("PostgreSQL", row[0] if row else "?")
    return 0


def with_server(*command: str) -> int:
    """Run a command with the embedded server, which lives as long as the command does."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from example_project.databases import database_url

    environment = {**os.environ, "DATABASE_URL": database_url()}
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    verbs = {
        "find": find,
        "create": create,
        "drop": drop,
        "version": version,
        "with": with_server,
    }
    sys.exit(verbs[sys.argv[1]](*sys.argv[2:]))
