"""`penstock plugins new`: what it writes passes its own tests, ruff and mypy before the first change."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # comes with Bokeh
from click.testing import Result
from packaging.requirements import Requirement
from tests.helpers.forked import run_module
from tests.helpers.plugin_folders import environment_with

import penstock
from penstock_cli.new import core_range, write_plugin

Cli = Callable[..., Result]

_ROOT = Path(__file__).parents[3]
KINDS = ("receiver", "rate-estimator", "listener", "block-store")


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """A new plugin of each kind."""
    plugins = [write_plugin(kind, f"my-{kind}", tmp_path) for kind in KINDS]
    return [*plugins, write_plugin("receiver", "my-broker", tmp_path, is_async=True)]


def _run(*command: str, folders: list[Path]) -> str:
    ended = run_module(*command, cwd=folders[0].parent, env=environment_with(*folders))
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def test_tests_of_a_new_plugin_pass(folders: list[Path]) -> None:
    output = _run("pytest", "-q", "-p", "no:cacheprovider", *map(str, folders), folders=folders)
    pattern = r"^(\w+) \((.+)\): .* 0 excused, 0 failed; .* grade: (\w+) \((?:[^;]*; )*?6 live checks not run: .*?\);"
    grades = re.findall(pattern, output, re.MULTILINE)
    assert sorted(grades) == [
        ("TestMyBlockStore", "block-store", "hardened"),
        ("TestMyBroker", "receiver", "hardened"),
        ("TestMyListener", "listener", "hardened"),
        ("TestMyRateEstimator", "rate-estimator", "hardened"),
        ("TestMyReceiver", "receiver", "hardened"),
    ]


def test_check_finds_the_suite_of_a_new_plugin(cli: Cli, folders: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    environment_with(*folders)
    for folder in folders:
        monkeypatch.syspath_prepend(folder)
    result = cli("plugins", "check", "my-rate-estimator", "--only", "PK-14", "--only", "RE-20")
    assert result.exit_code == 0, result.output
    assert "2 run, 0 not applicable, 0 excused, 0 failed; 2 selected" in result.stdout


def test_new_plugin_is_clean_for_ruff_and_mypy(folders: list[Path]) -> None:
    _run("ruff", "check", "--no-cache", "--extend-select=I,UP,B,C4,RET,RUF,SIM", ".", folders=folders)
    _run("ruff", "format", "--no-cache", "--check", ".", folders=folders)
    # Strict, and with the cache of this repository, so that Penstock is not checked again.
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", *map(str, folders)]
    ended = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_command_says_what_to_do_next(cli: Cli, tmp_path: Path) -> None:
    result = cli("plugins", "new", "receiver", "weather", "--into", str(tmp_path))
    assert result.exit_code == 0
    project = tmp_path / "penstock-weather"
    files = sorted(str(path.relative_to(project)) for path in project.rglob("*") if path.is_file())
    assert files == [
        ".github/workflows/ci.yml",
        ".github/workflows/release.yml",
        "CHANGELOG.md",
        "README.md",
        "penstock_weather.py",
        "pyproject.toml",
        "test_penstock_weather.py",
    ]
    assert [line.strip() for line in result.stdout.splitlines()[1:8]] == files
    assert result.stdout.endswith("  pytest\n  penstock demo --receiver weather\n")


@pytest.mark.parametrize(
    ("version", "expected"),
    [("0.1.0", ">=0.1.0,<0.2"), ("0.12.3", ">=0.12.3,<0.13"), ("1.4.2", ">=1.4.2,<2"), ("2.0rc1+local", ">=2.0rc1,<3")],
)
def test_core_range_ends_where_the_contract_may_change(version: str, expected: str) -> None:
    assert core_range(version) == expected


def test_new_plugin_accepts_the_core_that_wrote_it_and_not_the_next_minor_version(folders: list[Path]) -> None:
    for folder in folders:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        (core,) = map(Requirement, project["dependencies"])
        assert core.name == "penstock-core"
        assert core.specifier.contains(penstock.__version__)
        assert not core.specifier.contains("0.2.0")


def test_workflows_test_the_plugin_by_name_and_store_no_token(folders: list[Path]) -> None:
    for folder in folders:
        name = folder.name.removeprefix("penstock-")
        workflows = folder / ".github/workflows"
        ci, release = (yaml.safe_load((workflows / file).read_text()) for file in ("ci.yml", "release.yml"))
        commands = [step.get("run") for step in ci["jobs"]["test"]["steps"]]
        install, *tests = commands[-3:]
        assert install == "pip install . --group dev"
        assert tests == ["pytest", f"penstock plugins check {name}"]
        assert f"penstock plugins check {name}" in [step.get("run") for step in release["jobs"]["build"]["steps"]]
        assert release["jobs"]["publish"]["permissions"] == {"id-token": "write"}
        assert "secrets." not in (workflows / "release.yml").read_text()
        # `${{ … }}` survived the template, and nothing was left to fill in.
        assert ci["jobs"]["test"]["steps"][1]["with"]["python-version"] == "${{ matrix.python }}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("receiver", "My Receiver"), "the name 'My Receiver' is not lowercase ASCII"),
        (("receiver", "socket"), "the name 'socket' is taken by socket (penstock-socket"),
        (("sink", "mqtt"), "'sink' is not one of 'receiver', 'rate-estimator', 'listener', 'block-store'"),
        (("listener", "mine", "--asyncio"), "--asyncio is for a receiver, not for a listener"),
        (("receiver", "there"), "penstock-there exists: choose another name, or another folder with --into"),
    ],
)
def test_mistake_is_reported_and_nothing_is_written(
    cli: Cli, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "penstock-there").mkdir()
    result = cli("plugins", "new", *arguments, "--into", str(tmp_path))
    assert result.exit_code in {1, 2}
    assert message in result.stderr
    assert [path.name for path in tmp_path.rglob("*")] == ["penstock-there"]
