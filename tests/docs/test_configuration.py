"""``docs/configuration.md`` holds the tables that the code generates."""

from __future__ import annotations

from pathlib import Path

from tests.docs.write_configuration import as_markdown

from penstock.spark.spark_conf import UDS


def test_tables_are_those_that_the_code_generates() -> None:
    page = Path(__file__).parents[2] / "docs" / "configuration.md"
    prose, tables = page.read_text().split("## Start here", 1)
    assert "## Start here" + tables == as_markdown() + "\n", (
        "from there on the page is: python -m tests.docs.write_configuration"
    )
    assert UDS in prose
