"""The repository's Markdown pages: their code blocks, links and anchors."""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from attrs import field, frozen

ROOT = Path(__file__).parents[2]
#: Paths in the repository of all pages that readers are led to.
PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "core/*.md", "docs/**/*.md", "plugins/*/*.md", "examples/**/*.md", "tests/mutants/*.md")
    for path in ROOT.glob(pattern)
)
FENCE = re.compile(r"^([ \t]*)(```+)([^\n`]*)\n(.*?)^\1\2[ \t]*$", re.DOTALL | re.MULTILINE)
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
_LINK = re.compile(r'\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)|(?:href|src)="([^"]+)"')
_HEADING = re.compile(r"^#{1,6} (.+?)(?: \{#([\w-]+)\})?$", re.MULTILINE)


@frozen
class Block:
    """A fenced code block.

    Attributes:
        page: path of its page.
        line: of its first fence.
        language: the first word after the fence.
        options: the attributes after the language, as in ``python not_run="shows generated code"``.
        text: its content, without the indentation of the fence.
    """

    page: str
    line: int
    language: str
    options: dict[str, str] = field(eq=False)
    text: str = field(repr=False)

    @property
    def place(self) -> str:
        """Where it is, for a reader and for the ids of tests."""
        return f"{self.page}:{self.line}"


@functools.cache
def text_of(page: str) -> str:
    """A page as it is written."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> Iterator[Block]:
    """The code blocks of a page, in order."""
    for match in FENCE.finditer(text_of(page)):
        language, _, rest = match[3].strip().partition(" ")
        line = text_of(page).count("\n", 0, match.start()) + 1
        yield Block(page, line, language, dict(_ATTRIBUTE.findall(rest)), textwrap.dedent(match[4]))


def all_blocks(*languages: str) -> list[Block]:
    """The code blocks of all pages, of these languages."""
    return [block for page in PAGES for block in blocks(page) if block.language in languages]


def prose(page: str) -> str:
    """A page without code."""
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", text_of(page)))


def links(page: str) -> list[str]:
    """Targets of the links and pictures of a page."""
    return [markdown or html for markdown, html in _LINK.findall(prose(page))]


@functools.cache
def anchors(page: str) -> frozenset[str]:
    """What a link to a page may name after ``#``; made as code hosts and the site make it."""
    text = FENCE.sub("", text_of(page))
    found = set(re.findall(r'\bid="([\w.-]+)"', text)) | set(re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE))
    for heading, name in _HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        found.add(name or re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-"))
    return frozenset(found)
