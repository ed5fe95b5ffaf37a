"""The index of ``examples``, and the header of each example."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PROGRAMS = sorted([*EXAMPLES.glob("*.py"), *EXAMPLES.glob("receivers/*.py")])
PLUGINS = sorted(path.parent for path in EXAMPLES.glob("*/pyproject.toml"))


def name_of(path: Path) -> str:
    return path.relative_to(EXAMPLES).as_posix()


def header_of(program: Path) -> str:
    return ast.get_docstring(ast.parse(program.read_text(encoding="utf-8"))) or ""


def test_index_has_one_line_for_each_example_with_the_first_line_of_its_header() -> None:
    rows = re.findall(r"^\| \[`(.+?)`\]\((.+?)\) \| (.+?) \|$", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    programs = {name_of(path): header_of(path).splitlines()[0] for path in PROGRAMS}
    plugins = {name_of(path): (path / "README.md").read_text().splitlines()[2] for path in PLUGINS}
    assert {name: text for name, _link, text in rows} == programs | plugins
    assert [(name, link) for name, link, _text in rows if link != name] == []
    assert len(rows) == len(programs | plugins)


@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_example_is_short_and_its_header_says_what_it_shows_what_it_needs_and_how_to_run_it(program: Path) -> None:
    assert sum(bool(line.strip()) for line in program.read_text(encoding="utf-8").splitlines()) <= 60
    shows, blank, needs, run = header_of(program).splitlines()
    assert shows.endswith(".")
    assert blank == ""
    assert re.match(r"Needs: \S", needs)
    assert re.match(rf"Run: penstock run (--\w+ \S+ )*examples/{re.escape(name_of(program))}( |$)", run)


@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_example_that_runs_until_ctrl_c_stops_gracefully(program: Path) -> None:
    source = program.read_text(encoding="utf-8")
    runs = "StreamingContext" in source and "awaitTermination()" in source
    assert runs <= ('.set("spark.streaming.stopGracefullyOnShutdown", "true")' in source)


@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_a_test_runs_the_example(program: Path) -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("tests/**/test_*.py"))
    assert re.search(rf'"(receivers/)?{program.stem}(\.py)?"', tests)


@pytest.mark.parametrize(
    "program", [each for each in PROGRAMS if "sys.exit(__doc__)" in each.read_text(encoding="utf-8")], ids=name_of
)
def test_wrong_arguments_print_the_header(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [str(program), *"12345"])
    with pytest.raises(SystemExit) as error:
        runpy.run_path(str(program), run_name="__main__")
    assert f"Run: penstock run examples/{name_of(program)}" in str(error.value.code)
