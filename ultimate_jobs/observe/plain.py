"""Facts of a job as plain text, which can act on no terminal, no log and no page."""

from __future__ import annotations


def one_line(value: object, *, limit: int | None = None) -> str:
    """Return a value as one line of printable characters, cut to ``limit`` if it is longer.

    Control characters, line ends and marks that reorder text become visible escapes. The answer is
    always a plain ``str``: a subclass that claims to be safe HTML comes back without the claim.
    """
    text = str(value)
    if limit is not None and len(text) > limit:
        text = text[: limit - 1] + "…"
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def many_lines(value: object, *, limit: int | None = None) -> str:
    """Return a value as ``one_line`` does, but with its line ends kept and its tabs as spaces."""
    text = str(value)
    cut = text if limit is None else text[:limit]
    lines = cut.replace("\r\n", "\n").split("\n")
    shown = "\n".join(one_line(line.expandtabs(4)) for line in lines)
    return shown if cut == text else f"{shown}\n… ({len(text) - len(cut)} more characters)"


def duration(seconds: float) -> str:
    """Return a duration in its two largest units, for example ``2h 5m``."""
    left = max(0, int(seconds))
    parts: list[str] = []
    for name, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count}{name}")
    return " ".join(parts[:2]) or "0s"
