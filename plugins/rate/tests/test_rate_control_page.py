"""docs/rate-control.md and its drawings are up to date."""

from __future__ import annotations

import re

from plugins.rate.tests.write_rate_control import DOCS, drawings, page, simulated


def test_page_is_current() -> None:
    assert page(simulated()) == (DOCS / "rate-control.md").read_text(encoding="utf-8")


def test_drawings_are_current() -> None:
    for name, text in drawings().items():
        assert (DOCS / name).read_text(encoding="utf-8") == text


def test_links_resolve() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", (DOCS / "rate-control.md").read_text(encoding="utf-8"))
    assert len(links) == 5
    assert all((DOCS / link).exists() for link in links)
