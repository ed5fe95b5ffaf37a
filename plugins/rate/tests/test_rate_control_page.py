"""docs/rate-control.md and its drawings are up to date."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def command() -> dict[str, Any]:
    return runpy.run_path(str(Path(__file__).with_name("write_rate_control.py")))


def test_page_is_current(command: dict[str, Any]) -> None:
    assert command["page"](command["simulated"]()) == (DOCS / "rate-control.md").read_text(encoding="utf-8")


def test_drawings_are_current(command: dict[str, Any]) -> None:
    for name, text in command["drawings"]().items():
        assert (DOCS / name).read_text(encoding="utf-8") == text


def test_links_resolve() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", (DOCS / "rate-control.md").read_text(encoding="utf-8"))
    assert len(links) == 5
    assert all((DOCS / link).exists() for link in links)
