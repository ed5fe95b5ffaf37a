"""Every link of every page leads somewhere, and the site shows every page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # comes with Bokeh
from tests.docs.pages import FENCE, PAGES, ROOT, anchors, links, text_of


def broken(page: str) -> Iterator[str]:
    """The links of a page that lead nowhere."""
    for link in links(page):
        if re.match(r"https?:|mailto:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (ROOT / page).parent / target if target else ROOT / page
        if not path.exists():
            yield f"{link}: no such file"
        elif anchor and path.suffix == ".md":
            known = anchors(str(path.resolve().relative_to(ROOT)))
            if anchor not in known:
                yield f"{link}: no such heading; there are {sorted(known)}"


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_file_and_a_heading(page: str) -> None:
    assert list(broken(page)) == []


def test_the_check_finds_a_broken_link(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "[a](docs/no.md) [b](README.md#no-such) [c](README.md#why-and-when-not) `[d](e)`\n```\n[f](g)\n```\n"
    monkeypatch.setattr(
        "tests.docs.pages.text_of", lambda page: text if page == "CHANGELOG.md" else "## Why and when not\n"
    )
    anchors.cache_clear()
    try:
        found = [each.partition(":")[0] for each in broken("CHANGELOG.md")]
    finally:
        anchors.cache_clear()
    assert found == ["docs/no.md", "README.md#no-such"]


def test_pictures_are_small() -> None:
    for path in sorted(ROOT.glob("docs/**/*.png")):
        assert path.stat().st_size < 120_000, path


@pytest.mark.parametrize("page", PAGES)
def test_tables_end_with_an_empty_line(page: str) -> None:
    """MkDocs takes what follows, as the next item of a list, for a row."""
    text = FENCE.sub("", text_of(page))
    assert re.findall(r"^ *\|.*\n(?! *\||\n|\Z).*", text, re.MULTILINE) == []


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Reads mkdocs.yml, whose tags name Python objects."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda _loader, suffix, _node: suffix)
_Loader.add_constructor("!ENV", lambda _loader, _node: None)  # addresses of a published site


def pages_of(nav: Any) -> Iterator[str]:
    """The pages of a navigation."""
    for each in nav if isinstance(nav, list) else nav.values():
        if isinstance(each, str):
            yield each
        else:
            yield from pages_of(each)


def test_the_site_shows_every_page_once() -> None:
    config = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), _Loader)
    hook = (ROOT / "docs" / "site_hook.py").read_text(encoding="utf-8")
    moved = dict(re.findall(r'^    "([\w/.]+\.md)": "([\w/.-]+\.md)",$', hook, re.MULTILINE))
    moved |= {f"{folder}/README.md": f"plugins/{Path(folder).name}.md" for folder in plugin_folders()}
    shown = sorted(pages_of(config["nav"]))
    assert shown == sorted(moved.get(page, page.removeprefix("docs/")) for page in PAGES)


def plugin_folders() -> list[str]:
    return [str(path.parent.relative_to(ROOT)) for path in ROOT.glob("plugins/*/README.md")]
