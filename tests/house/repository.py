"""The files of this repository, and the syntax trees of the package's modules."""

from __future__ import annotations

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "ultimate_jobs"
DOCS = ROOT / "docs"

# What a build or a run leaves behind.
_NOT_OURS = {".git", ".venv", "_build", "__pycache__", "build", "dist"}


@cache
def modules() -> dict[Path, ast.Module]:
    """Return every module of the package, parsed."""
    return {
        path: ast.parse(path.read_text(encoding="utf-8"), str(path))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def shown(path: Path, node: ast.AST | None = None) -> str:
    """Return a place as ``path:line``, relative to the repository."""
    line = getattr(node, "lineno", None)
    return f"{path.relative_to(ROOT)}:{line}" if line else str(path.relative_to(ROOT))


@cache
def text_files() -> list[Path]:
    """Return every text file that is, or would be, committed."""
    git = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        found = [ROOT / line for line in listed.splitlines()]
    except (OSError, subprocess.CalledProcessError):
        # A source distribution has no git.
        found = list(ROOT.rglob("*"))
    return sorted(path for path in found if _is_text(path))


def _is_text(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    if _NOT_OURS & set(parts) or any(part.endswith((".egg-info", "_cache")) for part in parts):
        return False
    if not path.is_file() or path.is_symlink():
        return False
    return b"\0" not in path.read_bytes()[:4096]


def docs_pages() -> list[Path]:
    """Return every page of the docs."""
    return sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)


def literal_text(node: ast.AST) -> str | None:
    """Return a string constant, or an f-string with a space in each hole; else ``None``."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(literal_text(part) or " " for part in node.values)
    return None
