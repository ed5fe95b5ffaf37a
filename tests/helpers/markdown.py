"""Markdown of reference pages, made from docstrings and attrs classes."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

import attrs


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return (
        "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |").replace("| --- ", "|---") for line in lines) + "\n"
    )


def paragraph(text: str) -> str:
    """Text in lines that are not too long."""
    return textwrap.fill(text, 119, break_long_words=False, break_on_hyphens=False) + "\n"


def plain(text: str) -> str:
    """A docstring's text in one line, as Markdown in a table."""
    text = " ".join(text.split()).replace("``", "`").replace("|", "\\|")
    return text[0].upper() + text[1:] if text[:1].islower() else text


def summary(documented: object) -> str:
    """The first paragraph of a docstring."""
    return plain((inspect.getdoc(documented) or "").split("\n\n")[0])


def names(kind: type) -> str:
    """The fields of an attrs class."""
    return ", ".join(f"`{field.name}`" for field in attrs.fields(kind))


def fields(kind: type) -> Iterator[tuple[str, str]]:
    """Each field and property of an attrs class with its description."""
    described = attributes(kind)
    for field in attrs.fields(kind):
        yield f"`{field.name}`", described.get(field.name, "")
    for name, value in vars(kind).items():
        function = value.fget if isinstance(value, property) else getattr(value, "func", None)
        if function is not None and function.__doc__ and not name.startswith("_"):
            yield f"`{name}`", plain(function.__doc__.strip())


def attributes(kind: type) -> dict[str, str]:
    """What the section ``Attributes`` of a class says of each."""
    _, _, section = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")
    found = re.findall(r"^    (\w+): (.*?)(?=^    \w+: |\Z|^\S)", section, re.DOTALL | re.MULTILINE)
    return {name: plain(text) for name, text in found}
