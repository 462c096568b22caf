"""Answers /livez and /readyz over HTTP, for whoever restarts processes that stand still."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ultimate_jobs.events import emit
from ultimate_jobs.processes.health import Health

# Seconds that a client may take for its request.
PATIENCE = 5.0


class Endpoint:
    """A server in threads of its own.

    Args:
        health: looks at the process; called by any thread.

    Raises:
        OSError: nothing can listen at this address.
    """

    def __init__(self, host: str, port: int, health: Callable[[], Health]) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        server = type("Server", (_Server,), {"address_family": family})
        self._server: _Server = server((host, port), _Handler)
        self._server.health = health
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="jobs-health", daemon=True
        )

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()
        emit("jobs.health.listening", host=self._server.server_address[0], port=self.port)

    def stop(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    health: Callable[[], Health]


class _Handler(BaseHTTPRequestHandler):
    timeout = PATIENCE
    server: _Server
    server_version = "ultimate_jobs"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path not in ("/livez", "/readyz"):
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        health = self.server.health()
        good = health.live if path == "/livez" else health.ready
        body = f"{health.as_json()}\n".encode()
        self.send_response(HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is called there
        """Probes come every few seconds; the platform logs those that fail."""
