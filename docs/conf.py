"""Sphinx settings of the documentation; built with warnings as errors."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_VERSION = re.search(
    r'^__version__ = "(.+)"', (ROOT / "ultimate_jobs" / "__init__.py").read_text(), re.MULTILINE
)
assert _VERSION is not None  # noqa: S101

project = "ultimate_jobs"
author = "The ultimate_jobs authors"
copyright = author
version = release = _VERSION[1]

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = True

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"ultimate_jobs {version}"
