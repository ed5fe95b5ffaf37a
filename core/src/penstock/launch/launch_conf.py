"""The configuration that a program started from here gives its SparkContext, as far as the program itself says nothing.

Owns the reading of ``PYSPARK_SUBMIT_ARGS`` and of files of defaults, and the writing of the former. Never prints a
value: it may be a secret. Knows Spark's rules of precedence, starts no Spark.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from penstock.errors import ConfigurationError

UDS = "spark.python.unix.domain.socket.enabled"

_VARIABLE = "PYSPARK_SUBMIT_ARGS"
# Options of spark-submit that say the same as a key.
_KEYS = {
    "--master": "spark.master",
    "--name": "spark.app.name",
    "--driver-memory": "spark.driver.memory",
    "--driver-cores": "spark.driver.cores",
    "--driver-class-path": "spark.driver.extraClassPath",
    "--driver-java-options": "spark.driver.extraJavaOptions",
    "--driver-library-path": "spark.driver.extraLibraryPath",
    "--jars": "spark.jars",
    "--packages": "spark.jars.packages",
    "--exclude-packages": "spark.jars.excludes",
    "--repositories": "spark.jars.repositories",
    "--files": "spark.files",
    "--archives": "spark.archives",
}
# Those that take no value.
_SWITCHES = {"--load-spark-defaults", "--supervise", "--verbose", "-v"}
# What spark-submit is to run; PySpark wants it last.
_SHELL = "pyspark-shell"
_PROPERTY = re.compile(r"\s*([^\s=:#!][^\s=:]*)\s*[=:]?\s*(.*?)\s*")


def set_submit_args(defaults: Mapping[str, str], options: Iterable[str]) -> None:
    """Have the next SparkContext of this process, or of a child, take more configuration.

    Whatever the program sets itself wins over all of it; among the rest, the later wins.

    Args:
        defaults: configuration that comes before what ``PYSPARK_SUBMIT_ARGS`` holds.
        options: of spark-submit, that come after.

    Raises:
        ConfigurationError: what ``PYSPARK_SUBMIT_ARGS`` holds cannot be read.
    """
    weak = [part for key, value in defaults.items() for part in ("--conf", f"{key}={value}")]
    os.environ[_VARIABLE] = shlex.join([*weak, *_held(), *options, _SHELL])


def conf_here() -> dict[str, str]:
    """What is set, by key.

    Raises:
        ConfigurationError: what ``PYSPARK_SUBMIT_ARGS`` holds cannot be read.
    """
    options, pairs = _options(_held())
    chosen = options.get("--properties-file")
    # One that is named stands for that of the folder.
    found = _spark_defaults() if chosen is None or "--load-spark-defaults" in options else {}
    if chosen is not None:
        found |= _properties(Path(chosen))
    # An option wins over its key, wherever it stands.
    return {**found, **pairs, **{_KEYS[option]: value for option, value in options.items() if option in _KEYS}}


def _options(args: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The options of spark-submit, and the settings among them."""
    options: dict[str, str] = {}
    pairs: dict[str, str] = {}
    waiting = iter(args)
    for arg in waiting:
        option, joined, value = arg.partition("=") if arg.startswith("--") else (arg, "", "")
        if option not in _SWITCHES and not joined:
            value = next(waiting, "")
        if option in {"--conf", "-c"}:
            key, equals, value = value.partition("=")
            if equals:
                pairs[key] = value
        else:
            options[option] = value
    return options, pairs


def _held() -> list[str]:
    try:
        args = shlex.split(os.environ.get(_VARIABLE, ""))
    except ValueError as error:
        raise ConfigurationError(f"the environment variable {_VARIABLE} cannot be read: {error}") from None
    return args[:-1] if args[-1:] == [_SHELL] else args


def _spark_defaults() -> dict[str, str]:
    folder = _conf_folder()
    return _properties(folder / "spark-defaults.conf") if folder else {}


def _properties(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return {match[1]: match[2] for match in map(_PROPERTY.fullmatch, lines) if match}


def _conf_folder() -> Path | None:
    if chosen := os.environ.get("SPARK_CONF_DIR"):
        return Path(chosen)
    if home := os.environ.get("SPARK_HOME"):
        return Path(home) / "conf"
    pyspark = importlib.util.find_spec("pyspark")  # finds, does not import
    return Path(pyspark.origin).parent / "conf" if pyspark and pyspark.origin else None
