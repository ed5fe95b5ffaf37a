"""`penstock run`: the program finds what `python` would give it, and a configured Spark to come."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from penstock.launch import launch_conf
from penstock.launch.java import Java

Cli = Callable[..., Result]
Program = Callable[[str], str]


@pytest.fixture(autouse=True)
def three_cores_and_java(monkeypatch: pytest.MonkeyPatch) -> None:
    java = Java(Path("/jvm/bin/java"), Path("/jvm"), 17, "a test", True)
    monkeypatch.setattr("penstock.cli.run.ensure_java", lambda: java)
    monkeypatch.setattr(launch_conf, "_cores", lambda: 3)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Writes a program."""

    def write(source: str) -> str:
        (tmp_path / "app.py").write_text(source)
        return str(tmp_path / "app.py")

    return write


def submit_args() -> list[str]:
    return shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])


def test_program_runs_as_main_with_its_arguments_and_folder(cli: Cli, program: Program, tmp_path: Path) -> None:
    app = program("import sys, sibling\nprint(__name__, __file__, sys.argv, sys.path[0], sibling.HERE)")
    (tmp_path / "sibling.py").write_text("HERE = 'here'")
    result = cli("run", app, "--conf", "x", "-v", "--help")
    assert result.stdout == f"__main__ {app} {[app, '--conf', 'x', '-v', '--help']} {tmp_path} here\n"
    assert result.exit_code == 0
    assert os.environ["PYTHONPATH"].split(os.pathsep)[0] == str(tmp_path)


@pytest.mark.parametrize(("source", "code"), [("", 0), ("raise SystemExit(7)", 7), ("1/0", 1)])
def test_exit_code_is_the_programs(cli: Cli, program: Program, source: str, code: int) -> None:
    assert cli("run", program(source)).exit_code == code


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    raise ValueError('mine')\nf()",
        "import no_such_module",
        "x = (",
        "raise SystemExit('a message')",
        "from penstock.errors import PluginError\nraise PluginError('of the program, which wants to see where')",
        "raise KeyboardInterrupt",
    ],
)
def test_program_ends_as_under_python(program: Program, source: str) -> None:
    app = program(source)
    plain = subprocess.run([sys.executable, app], capture_output=True, text=True, check=False)
    ours = subprocess.run([sys.executable, "-m", "penstock", "run", app], capture_output=True, text=True, check=False)
    assert ours.stderr == plain.stderr
    # A signal's code is what the shell makes of it.
    assert ours.returncode == (plain.returncode if plain.returncode >= 0 else 128 - plain.returncode)


def test_default_master_has_a_slot_for_each_core_and_the_receiver(cli: Cli, program: Program) -> None:
    cli("run", program(""))
    assert submit_args() == [
        *("--conf", "spark.master=local[4]"),
        *("--conf", "spark.ui.showConsoleProgress=false"),
        *("--conf", "spark.python.unix.domain.socket.enabled=true"),
        "pyspark-shell",
    ]


def test_default_master_has_a_slot_for_each_receiver(cli: Cli, program: Program) -> None:
    cli("run", "--receivers", "5", program(""))
    assert "spark.master=local[8]" in submit_args()


def test_submit_args_override_defaults_and_options_override_both(
    cli: Cli, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--master yarn --name 'a b' pyspark-shell")
    cli("run", "--master", "local[1]", "--conf", "spark.x=it's a b", program(""))
    args = submit_args()
    assert set(args[:6:2]) == {"--conf"}
    assert args[6:] == [
        *("--master", "yarn", "--name", "a b"),
        *("--master", "local[1]", "--conf", "spark.x=it's a b"),
        "pyspark-shell",
    ]


def test_invalid_submit_args_are_refused_without_printing_them(
    cli: Cli, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf 'spark.secret=hush pyspark-shell")
    result = cli("run", program("print('ran')"))
    assert result.exit_code == 1
    assert (
        result.stderr
        == "penstock: the environment variable PYSPARK_SUBMIT_ARGS cannot be parsed: No closing quotation\n"
    )
    assert result.stdout == ""


@pytest.mark.parametrize("pair", ["hush", "secret=hush", "=hush"])
def test_invalid_conf_is_refused_without_printing_it(cli: Cli, program: Program, pair: str) -> None:
    result = cli("run", "--conf", pair, program("print('ran')"))
    assert result.exit_code == 2
    assert "must be spark.KEY=VALUE" in result.stderr
    assert "hush" not in result.output


def test_configuration_is_not_printed(cli: Cli, program: Program) -> None:
    result = cli("-v", "run", "--conf", "spark.secret=hush", program(""))
    assert result.exit_code == 0
    assert "hush" not in result.output


def test_verbose_sets_the_programs_log_level(cli: Cli, program: Program) -> None:
    cli("-v", "run", program(""))
    assert "spark.penstock.log.level=INFO" in submit_args()


def test_missing_program_is_a_usage_error(cli: Cli, tmp_path: Path) -> None:
    result = cli("run", str(tmp_path / "nope.py"))
    assert result.exit_code == 2
    assert "does not exist" in result.stderr


SEES = """
import sys
from pyspark import SparkConf, SparkContext

own = {"spark.master": "local[7]", "spark.python.unix.domain.socket.enabled": "false", "spark.x": "the program's"}
for settings in ({}, own):
    conf = SparkConf().setAppName("sees").set("spark.ui.enabled", "false").setAll(settings.items())
    sc = SparkContext(conf=conf)
    print([sc.getConf().get(key) for key in own])
    sc.stop()
sys.exit(3)
"""


@pytest.mark.spark
def test_the_programs_configuration_overrides_options(program: Program) -> None:
    command = ["run", "--master", "local[2]", "--conf", "spark.x=the option's", program(SEES)]
    found = subprocess.run([sys.executable, "-m", "penstock", *command], capture_output=True, text=True, check=False)
    assert found.stdout.splitlines() == [
        "['local[2]', 'true', \"the option's\"]",
        "['local[7]', 'false', \"the program's\"]",
    ]
    assert found.returncode == 3
