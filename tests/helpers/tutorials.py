"""Follows a tutorial of ``docs/`` step by step in an empty folder.

Where it installs, the plugin's folder is put on the search path with the metadata that pip would write, and hatchling
itself builds the wheel: no package index is asked.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.helpers.forked import run_module
from tests.helpers.plugin_folders import environment_with

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks_of(page: str) -> list[tuple[str, str]]:
    """Language and text of each code block of ``docs/<page>``."""
    return _BLOCK.findall((Path(__file__).parents[2] / "docs" / page).read_text(encoding="utf-8"))


class Walk:
    """Does what a tutorial says.

    Args:
        folder: an empty folder.
        plugin: the name of the folder that the tutorial makes.
        instead: command of the page → the one to run; an empty one is skipped with the output that follows it.
    """

    def __init__(self, folder: Path, plugin: str, instead: Mapping[str, str]) -> None:
        self.folder = folder
        self.plugin = folder / plugin
        self._instead = instead
        self.output: list[str] = []

    def follow(self, blocks: list[tuple[str, str]]) -> None:
        """Do what each block says, in order."""
        is_skipped = False
        for language, text in blocks:
            if language == "sh":
                for line in text.splitlines():
                    command = self._instead.get(line, line)
                    is_skipped = not command
                    if command:
                        self.run(command)
            elif language == "text":
                for part in [] if is_skipped else text.strip().split("..."):
                    assert part.strip() in self.output[-1], self.output[-1]
            else:
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
        module, *arguments = {
            "pytest": ["pytest", "-p", "no:cacheprovider", *command[1:]],
            "penstock": ["penstock_cli", *command[1:]],
            "pip": ["hatchling", "build", "-t", "wheel"],
        }[command[0]]
        environment = environment_with(self.plugin) if self.plugin.exists() else None
        ended = run_module(module, *arguments, cwd=self.folder, env=environment)
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
        # Python compares whole seconds and sizes: a change of the same size within a second would not be compiled.
        shutil.rmtree(file.parent / "__pycache__", ignore_errors=True)


def _key(line: str) -> str:
    """By which the first line of a change is found: a row of a table replaces the first row."""
    return "| `" if line.startswith("| `") else line
