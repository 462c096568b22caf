"""PgBouncer in transaction mode before the test database, started and ended by a test."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.e2e.processes import eventually

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
ADMIN = "pooler_admin"


class Pooler:
    """One PgBouncer on a port of its own, with few server connections.

    Attributes:
        url: how Django reaches the test database through it.
    """

    def __init__(self, direct: str, folder: Path, *, size: int = 8) -> None:
        given = conninfo_to_dict(direct)
        self._port = _free_port()
        user, name = given["user"], given["dbname"]
        self.url = f"postgresql://{user}@127.0.0.1:{self._port}/{name}"
        (folder / "users.txt").write_text(f'"{user}" "{given.get("password", "")}"\n"{ADMIN}" ""\n')
        config = folder / "pgbouncer.ini"
        config.write_text(
            "\n".join(
                [
                    "[databases]",
                    f"{name} = {_server(given)} dbname={name}",
                    "[pgbouncer]",
                    "listen_addr = 127.0.0.1",
                    f"listen_port = {self._port}",
                    "unix_socket_dir =",
                    "auth_type = trust",
                    f"auth_file = {folder}/users.txt",
                    f"admin_users = {ADMIN}",
                    "pool_mode = transaction",
                    f"default_pool_size = {size}",
                    "max_client_conn = 200",
                    "server_login_retry = 1",
                    f"logfile = {folder}/pgbouncer.log",
                ]
            )
        )
        self._log = folder / "pgbouncer.log"
        for path in (folder, folder.parent, folder.parent.parent, folder.parent.parent.parent):
            if path.stat().st_uid == os.geteuid():
                path.chmod(path.stat().st_mode | 0o011)
        folder.chmod(0o777)
        assert PROGRAM is not None
        self._process = subprocess.Popen(
            [PROGRAM, "-q", *_user(given), str(config)], stderr=subprocess.DEVNULL
        )
        eventually(self._answers, what="a running PgBouncer")

    def admin(self, command: str) -> list[tuple[Any, ...]]:
        """Run a command of its console."""
        url = f"postgresql://{ADMIN}@127.0.0.1:{self._port}/pgbouncer"
        with psycopg.connect(url, autocommit=True) as console:
            # The console speaks the simple protocol only.
            cursor = psycopg.ClientCursor(console)
            cursor.execute(command)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(20)

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            log = self._log.read_text() if self._log.exists() else "no log"
            raise AssertionError(f"PgBouncer ended with {self._process.returncode}: {log}")
        try:
            return bool(self.admin("show version"))
        except psycopg.OperationalError:
            return False


def _server(given: dict[str, Any]) -> str:
    parts = ("host", "port", "user", "password")
    return " ".join(f"{part}={given[part]}" for part in parts if given.get(part))


def _user(given: dict[str, Any]) -> list[str]:
    """PgBouncer refuses to run as root; a folder with the server's socket is its owner's."""
    if os.geteuid() != 0:
        return []
    host = given.get("host", "")
    owner = pwd.getpwuid(os.stat(host).st_uid).pw_name if host.startswith("/") else "nobody"
    return ["-u", "nobody" if owner == "root" else owner]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
