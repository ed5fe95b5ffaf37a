"""``penstock doctor``: checks of this machine. None starts Spark or changes anything."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal

import attrs
import click
from attrs import frozen
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from rich.text import Text

from penstock import __version__
from penstock.spi import conf_here, summary_of
from penstock_cli.conf import problems
from penstock_cli.installed import load_plugins
from penstock_cli.java import MIN_VERSION, find_java
from penstock_cli.launch import UDS
from penstock_cli.shared import as_json_option, examples, print_json, terminal

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}
# The requirements of core/pyproject.toml.
_PYTHON, _PYSPARK, _PYARROW, _PANDAS, _TOO_NEW_PANDAS = (3, 11), (4, 0), (18,), (2, 2), (3,)
_CORE = "penstock-core"
_ASK_LIMIT_S = 20.0
# Below this, a backlog of blocks may fill the disk.
_FREE_GB = 2.0
# The first PySpark with Unix domain sockets.
_PYSPARK_WITH_UDS = (4, 1)


@frozen
class Finding:
    """The result of a check.

    Attributes:
        level: ``fail`` if Penstock cannot run like this.
        text: the finding.
        remedy: the command or change that resolves it; empty for none.
    """

    level: Literal["ok", "warn", "fail"]
    text: str
    remedy: str = ""


@click.command(
    epilog=examples(
        ("doctor", "what works, what does not, and the command that fixes it"),
        ("doctor --json | jq '.[] | select(.level == \"fail\")'", "the failures, for a script"),
    )
)
@as_json_option
def doctor(as_json: bool) -> None:
    """Check this machine and say what to fix.

    Can Penstock run here, and if not, what makes it run? Looks at Python, PySpark, Java, the packages they need, the
    plugins and the configuration. Starts nothing and changes nothing.

    "ok" is as it should be, "warn" works with a disadvantage, with "fail" programs do not run: exit code 1. The line
    below a finding is the command or the change that fixes it.
    """
    findings = [(check.__name__.removeprefix("check_"), finding) for check in CHECKS for finding in check()]
    if as_json:
        print_json([{"check": name, **attrs.asdict(finding)} for name, finding in findings])
    else:
        _print(finding for _name, finding in findings)
    if any(finding.level == "fail" for _name, finding in findings):
        raise click.exceptions.Exit(1)


def _print(findings: Iterable[Finding]) -> None:
    console, failed = terminal(), 0
    for finding in findings:
        failed += finding.level == "fail"
        console.print(Text.assemble((f"{finding.level:<6}", _STYLES[finding.level]), finding.text), soft_wrap=True)
        if finding.remedy:
            console.print(Text(f"      → {finding.remedy}"), soft_wrap=True)
    if failed:
        console.print(f"\n{failed} to fix before programs run here")


def check_python() -> Iterator[Finding]:
    """The version of this Python."""
    version = sys.version_info[:3]
    text = f"Python {'.'.join(map(str, version))} ({sys.executable})"
    if version >= _PYTHON:
        yield Finding("ok", text)
    else:
        yield Finding("fail", text, "install Python 3.11 or newer")


def check_distributions() -> Iterator[Finding]:
    """The distributions that require one version of the core, as Penstock's own do."""
    different = {
        f"{distribution.name} {distribution.version}": needed
        for distribution in importlib.metadata.distributions()
        for needed in _needed_cores(distribution)
        if needed != __version__
    }
    if different:
        needs = ", ".join(f"{name} needs {needed}" for name, needed in sorted(different.items()))
        upgraded = " ".join(sorted({name.partition(" ")[0] for name in different}))
        text = f"{_CORE} {__version__} is installed, but {needs}: the versions must be the same"
        yield Finding("fail", text, f"pip install --upgrade {_CORE} {upgraded}")
    else:
        yield Finding("ok", f"{_CORE} {__version__}")


def _needed_cores(distribution: importlib.metadata.Distribution) -> Iterator[str]:
    """The version of the core that a distribution requires, if it requires exactly one."""
    # An interrupted uninstall leaves a distribution without metadata.
    with contextlib.suppress(Exception):
        for requirement in map(Requirement, distribution.requires or ()):
            applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if applies and canonicalize_name(requirement.name) == _CORE:
                yield from (specifier.version for specifier in requirement.specifier if specifier.operator == "==")


def check_pyspark() -> Iterator[Finding]:
    """PySpark, and which Spark it uses."""
    version = _version("pyspark")
    if version is None or _numbers(version) < _PYSPARK:
        yield Finding("fail", f"PySpark {_lacking(version)}", "pip install 'pyspark>=4.0'")
        return
    yield Finding("ok", f"PySpark {version}")
    home = os.environ.get("SPARK_HOME")
    if home and not Path(home, "bin", "spark-submit").is_file():
        text = f"SPARK_HOME={home} has no bin/spark-submit"
        yield Finding("fail", text, "unset SPARK_HOME, or set it to a Spark installation")
    elif home:
        yield Finding("warn", f"SPARK_HOME={home} replaces the Spark of PySpark", "unset SPARK_HOME unless you mean it")


def check_workers() -> Iterator[Finding]:
    """The Python of Spark's workers, which must be of the driver's version and have Penstock."""
    chosen = os.environ.get("PYSPARK_PYTHON") or conf_here().get("spark.pyspark.python")
    if chosen is None:
        yield from _check_python_of_sources()
        return
    here, remedy = sys.version_info[:2], f"export PYSPARK_PYTHON={sys.executable}"
    try:
        version, has_penstock = _ask(chosen)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        yield Finding("fail", f"PYSPARK_PYTHON={chosen} does not run: {summary_of(error)}", remedy)
        return
    if version != here:
        text = f"PYSPARK_PYTHON={chosen} is Python {version[0]}.{version[1]}; the driver is {here[0]}.{here[1]}"
        yield Finding("fail", f"{text}: Spark's workers must have the same", remedy)
    elif not has_penstock:
        yield Finding("fail", f"PYSPARK_PYTHON={chosen} lacks Penstock, which Spark's workers need", remedy)


def _check_python_of_sources() -> Iterator[Finding]:
    """The Python that Spark starts for a source of Structured Streaming: ``python3``, unless PYSPARK_PYTHON is set."""
    found = shutil.which("python3")
    if found is None or Path(found).parent == Path(sys.executable).parent:
        return
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        if not _ask(found)[1]:
            text = f"python3 is {found}, which lacks Penstock: Spark starts it for spark.readStream.format('penstock')"
            yield Finding("warn", text, f"export PYSPARK_PYTHON={sys.executable}, or activate its environment")


def _ask(python: str) -> tuple[tuple[int, ...], bool]:
    """The version of another Python, and whether it has Penstock."""
    program = "import sys, importlib.util as u; print(*sys.version_info[:2], int(u.find_spec('penstock') is not None))"
    asked = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True, timeout=_ASK_LIMIT_S)
    *version, has_penstock = map(int, asked.stdout.split())
    return tuple(version), bool(has_penstock)


def check_pyarrow() -> Iterator[Finding]:
    """Pyarrow with Arrow Flight, which transports blocks."""
    version = _version("pyarrow")
    remedy = "pip install 'pyarrow>=18'"
    if version is None or _numbers(version) < _PYARROW:
        yield Finding("fail", f"pyarrow {_lacking(version)}", remedy)
        return
    try:
        import pyarrow.flight  # noqa: F401  # whether it can be imported
    except ImportError as error:
        yield Finding("fail", f"pyarrow {version} has no Flight: {error}", remedy)
    else:
        yield Finding("ok", f"pyarrow {version}, with Flight")


def check_java() -> Iterator[Finding]:
    """The Java for Spark, and where it is."""
    search = find_java()
    if search.java is None:
        text = f"no Java for Spark: {'; '.join(search.rejected)}"
        yield Finding(
            "fail", text, f"pip install 'penstock-cli[java]', or set JAVA_HOME to a Java {MIN_VERSION} or newer"
        )
        return
    if os.environ.get("JAVA_HOME") and search.rejected:
        yield Finding("warn", search.rejected[0], "unset JAVA_HOME or correct it; until then the next Java is used")
    yield Finding("ok", str(search.java))


def check_pandas() -> Iterator[Finding]:
    """pandas, which PySpark requires for its pandas and Arrow functions."""
    version = _version("pandas")
    purpose = "DataFrames and PySpark's pandas functions"
    if version is None:
        yield Finding("warn", f"pandas is not installed: no {purpose}", "pip install penstock-dataframes")
    elif not _PANDAS <= _numbers(version) < _TOO_NEW_PANDAS:
        yield Finding("warn", f"pandas {version} does not work with {purpose}", "pip install 'pandas>=2.2,<3'")
    else:
        yield Finding("ok", f"pandas {version}, for {purpose}")


def check_plugins() -> Iterator[Finding]:
    """The installed plugins, those that fail to load, and names that several of them offer."""
    plugins = load_plugins(isolated=True)
    loaded = plugins.loaded
    working = [plugin.name for plugin in loaded if plugin.is_working]
    if working:
        yield Finding("ok", f"plugins: {', '.join(working)}")
    else:
        yield Finding("warn", "no plugin is installed: programs need their own receivers", "pip install penstock-spark")
    for plugin in loaded:
        if plugin.disabled:
            yield Finding("ok", f"plugin {plugin.origin} is disabled")
        elif plugin.fault:
            yield Finding(
                "fail",
                f"plugin {plugin.origin} was left out: {plugin.fault}",
                f"pip install --upgrade {plugin.distribution}, or set spark.penstock.plugins.disable={plugin.name}",
            )
    for clash in plugins.clashes():
        text, _, remedy = clash.rpartition(": ")
        yield Finding("fail", text, remedy)


def check_uds() -> Iterator[Finding]:
    """Unix domain sockets between Spark and its Python workers, which save 40 ms per stage."""
    slow = "each Python stage takes about 40 ms longer over TCP"
    version = _version("pyspark")
    if version is not None and _PYSPARK <= _numbers(version) < _PYSPARK_WITH_UDS:
        yield Finding("warn", f"PySpark {version} has no Unix domain sockets: {slow}", "pip install 'pyspark>=4.1'")
    elif conf_here().get(UDS, "true") == "false":
        yield Finding("warn", f"{UDS}=false is set: {slow}", "set it to true")
    else:
        path = Path(tempfile.gettempdir()) / f".{uuid.uuid4()}.sock"
        try:
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(str(path))
            path.unlink()
        except OSError as error:
            yield Finding(
                "fail", f"cannot create a Unix domain socket in {path.parent}: {error}", f"run with --conf {UDS}=false"
            )
        else:
            yield Finding("ok", "Unix domain sockets")


def check_host() -> Iterator[Finding]:
    """The name of this host, for which Spark needs an address."""
    name = socket.gethostname()
    try:
        socket.gethostbyname(name)
    except OSError as error:
        if not os.environ.get("SPARK_LOCAL_IP"):
            text = f"the name of this host, {name}, has no address ({error}), and Spark needs one"
            yield Finding("fail", text, "export SPARK_LOCAL_IP=127.0.0.1, or add the name to /etc/hosts")


def check_disk() -> Iterator[Finding]:
    """The disk that receivers store blocks on, which are Spark's local directories."""
    named = os.environ.get("SPARK_LOCAL_DIRS") or conf_here().get("spark.local.dir") or tempfile.gettempdir()
    for directory in map(str.strip, named.split(",")):
        try:
            free_gb = shutil.disk_usage(directory).free / 1e9
        except OSError as error:
            yield Finding(
                "fail", f"the local directory {directory} cannot be used: {error.strerror}", f"mkdir -p {directory}"
            )
            continue
        if free_gb < _FREE_GB:
            text = f"{free_gb:.1f} GB are free in {directory}, where blocks are stored"
            yield Finding("warn", text, "export SPARK_LOCAL_DIRS=/path/on/a/larger/disk")
        else:
            yield Finding("ok", f"{free_gb:.0f} GB free for blocks in {directory}")


def check_configuration() -> Iterator[Finding]:
    """The configuration that programs get here: spark-defaults.conf and PYSPARK_SUBMIT_ARGS."""
    pairs = conf_here()
    findings = problems(pairs, load_plugins(isolated=True))
    for problem in findings:
        yield Finding("fail" if problem.is_error else "warn", f"configuration: {problem.text}", problem.remedy)
    if pairs and not findings:
        yield Finding("ok", f"configuration: {len(pairs)} keys set for all programs here")


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    check_python,
    check_distributions,
    check_pyspark,
    check_workers,
    check_pyarrow,
    check_java,
    check_pandas,
    check_plugins,
    check_configuration,
    check_uds,
    check_host,
    check_disk,
)


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _lacking(version: str | None) -> str:
    return "is not installed" if version is None else f"{version} is too old"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))
