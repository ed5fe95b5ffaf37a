"""The configuration that a program started from here gives its SparkContext, as far as the program itself says nothing.

Owns the reading of ``PYSPARK_SUBMIT_ARGS`` and ``spark-defaults.conf``, and the writing of the former. Never prints a
value: it may be a secret. Knows Spark's rules of precedence, starts no Spark.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path

from penstock.errors import ConfigurationError

UDS = "spark.python.unix.domain.socket.enabled"

_VARIABLE = "PYSPARK_SUBMIT_ARGS"
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
    found = _spark_defaults()
    args = _held()
    for flag, pair in pairwise(args):
        key, equals, value = pair.partition("=")
        if flag in {"--conf", "-c"} and equals:
            found[key] = value
    return found


def _held() -> list[str]:
    try:
        args = shlex.split(os.environ.get(_VARIABLE, ""))
    except ValueError as error:
        raise ConfigurationError(f"the environment variable {_VARIABLE} cannot be read: {error}") from None
    return args[:-1] if args[-1:] == [_SHELL] else args


def _spark_defaults() -> dict[str, str]:
    folder = _conf_folder()
    try:
        lines = (folder / "spark-defaults.conf").read_text(encoding="utf-8").splitlines() if folder else []
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
