"""`penstock run`: the program finds what `python` would give it, and a configured Spark to come."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from penstock_cli import launch
from penstock_cli.java import Java
from penstock_cli.pack import write_archive

Cli = Callable[..., Result]
Program = Callable[[str], str]


@pytest.fixture(autouse=True)
def three_cores_and_java(monkeypatch: pytest.MonkeyPatch) -> None:
    java = Java(Path("/jvm/bin/java"), Path("/jvm"), 17, "a test", True)
    monkeypatch.setattr("penstock_cli.run.ensure_java", lambda: java)
    monkeypatch.setattr(launch, "_cores", lambda: 3)


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
    ours = subprocess.run(
        [sys.executable, "-m", "penstock_cli", "run", app], capture_output=True, text=True, check=False
    )
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
    assert set(args[:4:2]) == {"--conf"}
    assert args[4:] == [
        *("--master", "yarn", "--name", "a b"),
        *("--master", "local[1]", "--conf", "spark.x=it's a b"),
        "pyspark-shell",
    ]


def test_options_of_spark_submit_are_passed_on(cli: Cli, program: Program, tmp_path: Path) -> None:
    (tmp_path / "mine.conf").write_text("spark.x 1\n")
    options = {
        "--master": "spark://h:7077",
        "--name": "a b",
        "--py-files": "x.zip",
        "--packages": "g:a:1",
        "--archives": "data.tar.gz#data",
        "--properties-file": str(tmp_path / "mine.conf"),
    }
    result = cli("run", *[part for pair in options.items() for part in pair], program(""))
    assert result.exit_code == 0, result.output
    args = submit_args()[:-1]
    passed = args[args.index("--master") :]
    assert dict(zip(passed[::2], passed[1::2], strict=True)) == options


def test_what_a_properties_file_sets_is_no_default(cli: Cli, program: Program, tmp_path: Path) -> None:
    (tmp_path / "mine.conf").write_text("spark.master spark://h:7077\n")
    cli("run", "--properties-file", str(tmp_path / "mine.conf"), program(""))
    assert not [arg for arg in submit_args() if arg.startswith("spark.master=")]


def test_python_files_can_be_imported_before_there_is_a_context(cli: Cli, program: Program, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "helper_of_the_test.py").write_text("HERE = 'helped'")
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as archive:
        archive.writestr("zipped_for_the_test.py", "HERE = 'zipped'")
    files = f"{tmp_path / 'lib' / 'helper_of_the_test.py'},{tmp_path / 'more.zip'}"
    source = "import helper_of_the_test as a, zipped_for_the_test as b; print(a.HERE, b.HERE)"
    assert cli("run", "--py-files", files, program(source)).stdout == "helped zipped\n"


def test_packed_archive_is_on_the_path_of_executors(cli: Cli, program: Program, tmp_path: Path) -> None:
    write_archive(tmp_path / "p.tar.gz", [])
    cli("run", "--archives", f"data.zip#d,{tmp_path}/p.tar.gz,{tmp_path}/p.tar.gz#more", program(""))
    args = submit_args()
    assert args[args.index("--archives") + 1] == f"data.zip#d,{tmp_path}/p.tar.gz#penstock,{tmp_path}/p.tar.gz#more"
    assert "spark.executorEnv.PYTHONPATH=./penstock:./more" in args


def test_cluster_mode_becomes_spark_submit(cli: Cli, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[list[str]] = []

    def execv(path: str, command: list[str]) -> None:
        assert path == command[0]
        became.append(command)
        raise SystemExit(0)

    monkeypatch.setattr(os, "execv", execv)
    app = program("print('ran here')")
    result = cli("run", "--master", "yarn", "--deploy-mode", "cluster", "--conf", "spark.x=1", app, "--name", "mine")
    assert result.stdout == ""
    ((command, *options),) = became
    assert Path(command).name == "spark-submit"
    assert options[:2] == ["--deploy-mode", "cluster"]
    assert options[-7:] == ["--master", "yarn", "--conf", "spark.x=1", app, "--name", "mine"]
    assert not [option for option in options if option.startswith("spark.master=")]


def test_program_in_an_image_can_be_named_in_cluster_mode_only(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[str] = []
    monkeypatch.setattr(os, "execv", lambda _path, command: became.extend(command))
    cli("run", "--master", "k8s://https://h:1", "--deploy-mode", "cluster", "local:///opt/app.py", "x")
    assert became[-2:] == ["local:///opt/app.py", "x"]
    assert "does not exist" in cli("run", "local:///opt/app.py").stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "needs the --master of a cluster, not none"),
        (["--master", "local[2]"], "needs the --master of a cluster, not local"),
        (["--master", "spark://h:7077"], "client mode only"),
        (["--master", "yarn", "--watch"], "--watch shows batches of a program that runs here"),
    ],
)
def test_cluster_mode_that_cannot_be_is_refused(cli: Cli, program: Program, options: list[str], message: str) -> None:
    result = cli("run", "--deploy-mode", "cluster", *options, program("print('ran')"))
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())
    assert result.stdout == ""


def test_invalid_submit_args_are_refused_without_printing_them(
    cli: Cli, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf 'spark.secret=hush pyspark-shell")
    result = cli("run", program("print('ran')"))
    assert result.exit_code == 1
    assert (
        result.stderr
        == "penstock: the environment variable PYSPARK_SUBMIT_ARGS cannot be parsed: No closing quotation: quote its "
        "values as in a shell\n"
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
@pytest.mark.programs
def test_the_programs_configuration_overrides_options(program: Program) -> None:
    command = ["run", "--master", "local[2]", "--conf", "spark.x=the option's", program(SEES)]
    completed = subprocess.run(
        [sys.executable, "-m", "penstock_cli", *command], capture_output=True, text=True, check=False
    )
    assert completed.stdout.splitlines() == [
        "['local[2]', 'true', \"the option's\"]",
        "['local[7]', 'false', \"the program's\"]",
    ]
    assert completed.returncode == 3
