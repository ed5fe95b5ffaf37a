"""The table of configuration keys is the one the code makes."""

from __future__ import annotations

from pathlib import Path

from penstock.conf import as_markdown


def test_the_table_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "configuration.md"
    assert as_markdown() in page.read_text()
