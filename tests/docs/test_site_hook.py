"""What the site's hook decides without MkDocs, which only the environment of `make docs` has."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest
from tests.docs.pages import PAGES, ROOT, text_of


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    files = ModuleType("mkdocs.structure.files")
    vars(files).update(File=object, Files=object, InclusionLevel=object)
    for name, module in (
        ("mkdocs", ModuleType("mkdocs")),
        ("mkdocs.structure", ModuleType("mkdocs.structure")),
        ("mkdocs.structure.files", files),
    ):
        monkeypatch.setitem(sys.modules, name, module)
    spec = importlib.util.spec_from_file_location("site_hook", ROOT / "docs/site_hook.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("repo_url", "edit_path", "expected"),
    [
        (None, "edit/main/", None),
        ("", "edit/main/", None),
        ("https://code.example/team/it", "edit/main/", "https://code.example/team/it/edit/main/docs/faq.md"),
        ("https://code.example/team/it/", "-/edit/main", "https://code.example/team/it/-/edit/main/docs/faq.md"),
    ],
)
def test_edit_link_needs_the_address_of_the_repository(
    hook: ModuleType, repo_url: str | None, edit_path: str, expected: str | None
) -> None:
    assert hook.edit_url(repo_url, edit_path, "docs/faq.md") == expected


def test_llms_txt_lists_the_pages_of_each_group(hook: ModuleType) -> None:
    groups = [("Start", [("Quickstart", "quickstart.html", "Ten minutes."), ("Home", "index.html", "")])]
    assert hook.llms_txt("Penstock", "Streams.", groups) == (
        "# Penstock\n\n> Streams.\n\n## Start\n\n- [Quickstart](quickstart.html): Ten minutes.\n- [Home](index.html)\n"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Title\n\nOne sentence. Another.\n", "One sentence."),
        (
            "# Title\n\n```sh\nmake it. now\n```\n\nSee [the page](a.md#b),\nand **more**: a list.\n",
            "See the page, and more: a list.",
        ),
        ("# Title\n\n| a | b |\n|---|---|\n", ""),
        ("---\ntitle: x\n---\n# Title\n\n`make docs` builds. It is strict.", "`make docs` builds."),
    ],
)
def test_opening_is_the_first_sentence(hook: ModuleType, text: str, expected: str) -> None:
    assert hook.opening(text) == expected


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/")])
def test_every_page_opens_with_a_sentence(hook: ModuleType, page: str) -> None:
    assert hook.opening(text_of(page))
