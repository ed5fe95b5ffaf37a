"""docs/tutorial-receiver.md, step by step in an empty folder.

Where it installs, the plugin's folder is put on the search path with the metadata that pip would write, and hatchling
itself builds the wheel: no package index is asked. The tests of the new plugin, in step 1, are run by
``tests/cli/test_new.py``.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.plugin_folders import environment_with

_PAGE = Path(__file__).parents[2] / "docs" / "tutorial-receiver.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Walk:
    """Follows the tutorial."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.plugin = folder, folder / "penstock-outbox"
        self.output: list[str] = []

    def follow(self, *, on_spark: bool) -> None:
        """Do what each block says, in order."""
        page = _PAGE.read_text(encoding="utf-8")
        first, _, rest = page.partition("## 2.")
        first = first.replace("\npytest\n```", "\n```").replace("```text", "```skipped")
        for language, text in _BLOCK.findall(first + rest):
            if language == "sh":
                for line in text.splitlines():
                    if on_spark or not line.startswith("penstock run"):
                        self.run(line)
            elif language == "text":
                for part in text.strip().split("..."):
                    assert part.strip() in self.output[-1], self.output[-1]
            elif language != "skipped":
                self.write(text)

    def run(self, line: str) -> None:
        """Run a command; what is to fail says so."""
        command = shlex.split(line, comments=True)
        if command[0] == "cd":
            self.folder = self.folder / command[1]
            return
        if command[:2] == ["pip", "install"]:
            assert command[2:4] == ["--editable", "."]
            return
        arguments = {
            "pytest": ["-m", "pytest", "-p", "no:cacheprovider", *command[1:]],
            "penstock": ["-m", "penstock", *command[1:]],
            "pip": ["-m", "hatchling", "build", "-t", "wheel"],
        }[command[0]]
        environment = environment_with(self.plugin) if self.plugin.exists() else None
        ended = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )
        self.output.append(ended.stdout)
        assert (ended.returncode != 0) == line.endswith("# fails"), f"{line}\n{ended.stdout}"

    def write(self, text: str) -> None:
        """Write a file, append to it, or replace the lines between the block's first and last."""
        head, _, body = text.partition("\n")
        name, _, what = head.removeprefix("# ").partition(": ")
        file = self.folder / name
        if what == "append":
            body = file.read_text(encoding="utf-8") + "\n" + body
        elif what == "change":
            old = file.read_text(encoding="utf-8")
            lines, new = old.splitlines(), body.splitlines()
            start = next(index for index, line in enumerate(lines) if _key(line) == _key(new[0]))
            end = start
            while end < len(lines) and lines[end].strip():
                end += 1
            body = "\n".join([*lines[:start], *new, *lines[end:], ""])
        file.write_text(body, encoding="utf-8")


def _key(line: str) -> str:
    """By which the first line of a change is found: a row of a table replaces the first row."""
    return "| `" if line.startswith("| `") else line


def test_tutorial_leads_to_a_proven_receiver(tmp_path: Path) -> None:
    walk = Walk(tmp_path)
    walk.follow(on_spark=False)
    assert "grade: hardened" in walk.output[-2], walk.output[-2]
    assert "0 failed" in walk.output[-2]
    (wheel,) = (walk.plugin / "dist").glob("*.whl")
    assert wheel.name == "penstock_outbox-0.1.0-py3-none-any.whl"


@pytest.mark.spark
def test_tutorial_ends_with_a_stream(tmp_path: Path) -> None:
    walk = Walk(tmp_path)
    blocks = dict(_written())
    walk.run("penstock plugins new receiver outbox")
    walk.run("cd penstock-outbox")
    for name in ("penstock_outbox.py", "app.py"):
        walk.write(blocks[name])
    walk.run("penstock run app.py")
    assert "('be', 2000)" in walk.output[-1], walk.output[-1]


def _written() -> list[tuple[str, str]]:
    """The first block that writes each file."""
    texts = [text for language, text in _BLOCK.findall(_PAGE.read_text(encoding="utf-8")) if language == "python"]
    return [(text.partition("\n")[0].removeprefix("# "), text) for text in reversed(texts)]
