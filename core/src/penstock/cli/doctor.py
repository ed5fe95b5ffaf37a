"""``penstock doctor``: checks of this machine. None starts Spark or changes anything."""

from __future__ import annotations

import importlib.metadata
import os
import re
import socket
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import click
from attrs import frozen
from rich.text import Text

from penstock.cli.plugins import load_plugins
from penstock.cli.shared import terminal
from penstock.launch.java import MIN_VERSION, find_java
from penstock.launch.launch_conf import UDS, conf_here

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}
# The requirements of core/pyproject.toml.
_PYTHON, _PYSPARK, _PYARROW, _PANDAS, _TOO_NEW_PANDAS = (3, 11), (4, 0), (18,), (2, 2), (3,)
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


@click.command()
def doctor() -> None:
    """Check whether Penstock can run on this machine.

    Exits with 1 if a check fails.
    """
    findings = [finding for check in CHECKS for finding in check()]
    console = terminal()
    for finding in findings:
        console.print(Text.assemble((f"{finding.level:<6}", _STYLES[finding.level]), finding.text), soft_wrap=True)
        if finding.remedy:
            console.print(Text(f"      → {finding.remedy}"), soft_wrap=True)
    if any(finding.level == "fail" for finding in findings):
        raise click.exceptions.Exit(1)


def check_python() -> Iterator[Finding]:
    """The version of this Python."""
    version = sys.version_info[:3]
    text = f"Python {'.'.join(map(str, version))} ({sys.executable})"
    if version >= _PYTHON:
        yield Finding("ok", text)
    else:
        yield Finding("fail", text, "install Python 3.11 or newer")


def check_pyspark() -> Iterator[Finding]:
    """PySpark, and which Spark it uses."""
    version = _version("pyspark")
    if version is None or _numbers(version) < _PYSPARK:
        yield Finding("fail", f"PySpark {version or 'is not installed'}", "pip install 'pyspark>=4.0'")
        return
    yield Finding("ok", f"PySpark {version}")
    if home := os.environ.get("SPARK_HOME"):
        yield Finding("warn", f"SPARK_HOME={home} replaces the Spark of PySpark", "unset SPARK_HOME unless you mean it")


def check_pyarrow() -> Iterator[Finding]:
    """Pyarrow with Arrow Flight, which transports blocks."""
    version = _version("pyarrow")
    remedy = "pip install 'pyarrow>=18'"
    if version is None or _numbers(version) < _PYARROW:
        yield Finding("fail", f"pyarrow {version or 'is not installed'}", remedy)
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
    if search.found is None:
        text = f"no Java for Spark: {'; '.join(search.rejected)}"
        yield Finding("fail", text, f"pip install 'penstock[java]', or set JAVA_HOME to a Java {MIN_VERSION} or newer")
        return
    if os.environ.get("JAVA_HOME") and search.rejected:
        yield Finding("warn", search.rejected[0], "unset JAVA_HOME or correct it; until then the next Java is used")
    yield Finding("ok", str(search.found))


def check_pandas() -> Iterator[Finding]:
    """pandas, which PySpark requires for its pandas and Arrow functions."""
    version = _version("pandas")
    purpose = "PySpark's pandas and Arrow functions"
    if version is None:
        yield Finding("warn", f"pandas is not installed: no {purpose}", "pip install 'penstock[columnar]'")
    elif not _PANDAS <= _numbers(version) < _TOO_NEW_PANDAS:
        yield Finding("warn", f"pandas {version} does not work with {purpose}", "pip install 'pandas>=2.2,<3'")
    else:
        yield Finding("ok", f"pandas {version}, for {purpose}")


def check_plugins() -> Iterator[Finding]:
    """The installed plugins, and those that fail to load."""
    loaded = load_plugins(isolated=True).loaded
    working = [plugin.name for plugin in loaded if plugin.is_working]
    if working:
        yield Finding("ok", f"plugins: {', '.join(working)}")
    else:
        yield Finding("warn", "no plugin is installed: programs need their own receivers", "pip install penstock-all")
    for plugin in loaded:
        if plugin.disabled:
            yield Finding("ok", f"plugin {plugin.origin} is disabled")
        elif plugin.fault:
            yield Finding(
                "fail",
                f"plugin {plugin.origin} was left out: {plugin.fault}",
                f"pip install --upgrade {plugin.distribution}, or set spark.penstock.plugins.disable={plugin.name}",
            )


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


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    check_python,
    check_pyspark,
    check_pyarrow,
    check_java,
    check_pandas,
    check_plugins,
    check_uds,
)


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))
