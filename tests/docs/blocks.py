"""The code blocks of the README and of the docs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.house.repository import ROOT, docs_pages

_BLOCK = re.compile(
    r"^(?P<indent> *)(?:<!-- runs: (?P<group>[\w-]+) -->\n(?P=indent))?"
    r"```(?P<language>\w+)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One fenced block; those of one page and group run one after the other."""

    page: Path
    line: int
    language: str
    group: str | None
    text: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """Return every page that shows code."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *docs_pages()]


def blocks(language: str) -> list[Block]:
    """Return every block of a language, in the order of the pages."""
    return [
        Block(
            page=page,
            line=text.count("\n", 0, found.start()) + 1,
            language=found["language"],
            group=found["group"],
            text=re.sub(rf"^{found['indent']}", "", found["text"], flags=re.MULTILINE),
        )
        for page in pages()
        for text in [page.read_text(encoding="utf-8")]
        for found in _BLOCK.finditer(text)
        if found["language"] == language
    ]


def group(name: str) -> list[Block]:
    """Return the Python blocks that are marked ``<!-- runs: name -->``."""
    found = [block for block in blocks("python") if block.group == name]
    assert found, f"no page marks a block with: runs: {name}"
    return found
