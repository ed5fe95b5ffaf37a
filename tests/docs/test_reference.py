"""docs/reference/ is what the code generates."""

from __future__ import annotations

import pytest
from tests.docs.write_reference import FOLDER, described, hook_functions, pages, spi_users

from penstock import hookspecs
from penstock.listen.events import HOOK_OF

PAGES = pages()


@pytest.mark.parametrize("page", PAGES)
def test_page_is_that_which_the_code_generates(page: str) -> None:
    assert (FOLDER / page).read_text(encoding="utf-8") == PAGES[page], "run: python -m tests.docs.write_reference"


def test_every_public_name_is_described_once() -> None:
    for module, names in described().items():
        public = set(getattr(module, "__all__", dir(module))) - {"__version__"}
        assert sorted(names) == sorted(public), module.__name__


def test_every_name_of_the_spi_has_a_first_party_user() -> None:
    assert [name for name, plugins in spi_users().items() if not plugins] == []


def test_every_hook_and_every_field_has_a_meaning() -> None:
    members = {**vars(hookspecs), **vars(hookspecs.StreamingListener)}
    assert set(hook_functions()) == {name for name, value in members.items() if hasattr(value, "penstock_spec")}
    assert set(HOOK_OF.values()) <= set(hook_functions())
    for page in PAGES.values():
        assert "` | |\n" not in page
