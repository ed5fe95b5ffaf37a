"""docs/troubleshooting.md quotes messages that the code has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
# tests/docs/test_refusals.py has the first section, whose messages are composed of several texts.
SECTIONS = _PAGE.split("\n## ")[2:]


def quoted() -> list[str]:
    """The texts in the first column of the tables of messages."""
    rows = [row for section in SECTIONS for row in re.findall(r"^\| (`.*?) \| ", section, re.MULTILINE)]
    return [text for row in rows for text in re.findall(r"`([^`]+)`", row)]


def texts() -> Iterator[str]:
    """Every text in the source; ``…`` for each part that the code computes."""
    for path in [*ROOT.glob("core/src/**/*.py"), *ROOT.glob("plugins/*/src/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)


def test_every_quoted_message_is_in_the_source() -> None:
    source = "\0".join(texts())
    found = quoted()
    patterns = {text: "[^\0]*?".join(re.escape(part) for part in text.strip("…").split("…")) for text in found}
    assert [text for text, pattern in patterns.items() if not re.search(pattern, source)] == []
    assert len(found) > 80
