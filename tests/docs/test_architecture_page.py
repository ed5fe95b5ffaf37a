"""docs/architecture.md and CONTRIBUTING.md are true to the code."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import click
import pytest
from tests.helpers.receiver_transitions import receiver_transitions
from tests.helpers.relaunch_transitions import relaunch_transitions

from penstock.receive import running_receiver
from penstock.track import receiver_tracking_info
from penstock_cli.command import penstock

ROOT = Path(__file__).parents[2]
CORE = ROOT / "core" / "src" / "penstock"
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PAGES = pytest.mark.parametrize("page", [ARCHITECTURE, CONTRIBUTING], ids=["architecture", "contributing"])


def code_of(page: str) -> list[str]:
    """What a page has between backticks, without its pictures."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page, flags=re.DOTALL))


def test_the_layers_are_those_of_the_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["id"] == "layers"]
    section = ARCHITECTURE.partition("\n## Layers")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert [re.findall(r"`(\w+)`", row) for row in rows] == [re.findall(r"\w+", layer) for layer in layers]


@pytest.mark.parametrize(
    ("section", "expected", "states"),
    [
        ("### Launches", relaunch_transitions, receiver_tracking_info.State),
        ("### Runs", receiver_transitions, running_receiver.State),
    ],
    ids=["driver", "task"],
)
def test_state_diagram_has_the_transitions_of_the_life_cycle(
    section: str, expected: Callable[[], set[tuple[str, str]]], states: object
) -> None:
    (diagram,) = re.findall(r"stateDiagram-v2\n(.*?)```", ARCHITECTURE.partition(section)[2].partition("\n##")[0], re.S)
    edges = [edge for edge in re.findall(r"(\S+) --> ([^:\s]+)", diagram) if "[*]" not in edge]
    assert len(edges) == len(set(edges))
    assert set(edges) == expected()
    assert {state for edge in edges for state in edge} == {state.__name__ for state in get_args(states)}


def thread_names() -> set[str]:
    """The names that the code gives to threads; ``<>`` for each part that it computes."""
    found = set()
    for path in CORE.rglob("*.py"):
        calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
        for call in calls:
            kind = ast.unparse(call.func)
            if kind in ("EngineThread", "EventLoop", "RecurringTimer", "lifecycle.OnThread"):
                name = call.args[3 if kind == "RecurringTimer" else 0]
                # A bare variable: what starts the thread of a loop or a timer, whose name is given elsewhere.
                if not isinstance(name, ast.Name):
                    text = re.sub(r"\{[^}]*\}", "<>", ast.unparse(name).removeprefix("f").strip("'\""))
                    found.add(f"RecurringTimer - {text}" if kind == "RecurringTimer" else text)
    # The class names its threads after its argument, which the calls above give.
    return found - {"RecurringTimer - <>"}


def test_the_threads_are_those_that_the_code_starts() -> None:
    section = ARCHITECTURE.partition("| process | thread | does |\n")[2].partition("\n\n")[0]
    named = [name for row in section.splitlines() for name in re.findall(r"`([^`]+)`", row.split("|")[2])]
    assert {re.sub(r"<\w+>", "<>", name) for name in named} == thread_names()


@PAGES
def test_every_path_exists(page: str) -> None:
    commands = (".venv/", "make ", "penstock ")
    paths = [code for code in code_of(page) if re.fullmatch(r"[\w.][\w./-]*", code) and not code.startswith(commands)]
    paths = [path for path in paths if "/" in path or re.search(r"\.(py|md|toml)$", path)]
    paths += re.findall(r"(?:plugins/\w+/tests|(?<!/)tests|benchmarks)/[\w/]+\.py", page)
    assert paths
    assert [path for path in paths if not any((base / path).exists() for base in (ROOT, CORE))] == []


def test_every_command_exists() -> None:
    commands = code_of(CONTRIBUTING)
    makefile = (ROOT / "Makefile").read_text()
    targets = {code.split()[1] for code in commands if code.startswith("make ")}
    assert targets
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.M)] == []
    for code in (code for code in commands if code.startswith("penstock ")):
        command: click.Command = penstock
        for word in code.split()[1:]:
            assert isinstance(command, click.Group)
            command = command.commands[word]


def test_the_readme_links_to_both_pages() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "(docs/architecture.md)" in readme
    assert "(CONTRIBUTING.md)" in readme
