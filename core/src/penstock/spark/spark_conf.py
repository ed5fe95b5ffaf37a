"""Spark's configuration: that of a SparkContext, and that which one created here would get from its environment.

The environment is ``PYSPARK_SUBMIT_ARGS`` and ``spark-defaults.conf``, read by Spark's rules of precedence without
starting Spark. Values are never printed, because they may be secrets.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

UDS = "spark.python.unix.domain.socket.enabled"
#: Spark's progress bar: the stage of a receiver never ends, so the bar would cover each line of output.
PROGRESS = "spark.ui.showConsoleProgress"

_VARIABLE = "PYSPARK_SUBMIT_ARGS"
# Options of spark-submit that set a key.
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
    "--py-files": "spark.submit.pyFiles",
    "--deploy-mode": "spark.submit.deployMode",
}
# Options without a value.
_SWITCHES = {"--load-spark-defaults", "--supervise", "--verbose", "-v"}
# The program that PySpark asks spark-submit to run; the last argument.
_SHELL = "pyspark-shell"
_PROPERTY = re.compile(r"\s*([^\s=:#!][^\s=:]*)\s*[=:]?\s*(.*?)\s*")


def read_properties(path: Path) -> list[tuple[str, str, int]]:
    """Key, value and line number, from 1, of each property in a file such as ``spark-defaults.conf``.

    A key ends before the first space, ``=`` or ``:``. Raises OSError if the file cannot be read.
    """
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    matches = ((number, _PROPERTY.fullmatch(line)) for number, line in lines)
    return [(match[1], match[2], number) for number, match in matches if match]


def conf_here(args: Sequence[str] | None = None) -> dict[str, str]:
    """The configuration of a SparkContext created here, key → value.

    ``args`` are options of spark-submit, by default those in ``PYSPARK_SUBMIT_ARGS``. Raises ``ConfigurationError`` if
    that variable cannot be parsed.
    """
    options, pairs = _options(_submit_args() if args is None else args)
    # An option overrides its key, in any order.
    chosen = {_KEYS[option]: value for option, value in options.items() if option in _KEYS}
    return {**_of_files(options), **pairs, **chosen}


def _options(args: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The options of spark-submit, and the pairs of its --conf options."""
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


def _of_files(options: Mapping[str, str]) -> dict[str, str]:
    """The configuration in ``spark-defaults.conf``, or in the file that replaces it."""
    chosen, folder = options.get("--properties-file"), _conf_folder()
    uses_defaults = chosen is None or "--load-spark-defaults" in options
    properties = _properties(folder / "spark-defaults.conf") if folder and uses_defaults else {}
    return properties if chosen is None else properties | _properties(Path(chosen))


def _submit_args() -> list[str]:
    try:
        args = shlex.split(os.environ.get(_VARIABLE, ""))
    except ValueError as error:
        raise ConfigurationError(
            f"the environment variable {_VARIABLE} cannot be parsed: {error}: quote its values as in a shell"
        ) from None
    return args[:-1] if args[-1:] == [_SHELL] else args


def _properties(path: Path) -> dict[str, str]:
    try:
        return {key: value for key, value, _line in read_properties(path)}
    except OSError:
        return {}


def _conf_folder() -> Path | None:
    if chosen := os.environ.get("SPARK_CONF_DIR"):
        return Path(chosen)
    if home := os.environ.get("SPARK_HOME"):
        return Path(home) / "conf"
    pyspark = importlib.util.find_spec("pyspark")  # without importing it
    return Path(pyspark.origin).parent / "conf" if pyspark and pyspark.origin else None


def conf_of(sc: SparkContext) -> SparkConf:
    """The configuration object itself, for reading single keys; a copy if PySpark's attribute is missing."""
    conf: SparkConf = getattr(sc, "_conf", None) or sc.getConf()
    return conf


def entries_of(sc: SparkContext) -> dict[str, str]:
    """All entries, with a handful of JVM calls: ``SparkContext.getConf`` copies them with four calls per entry."""
    conf: Any = conf_of(sc)
    java = getattr(conf, "_jconf", None)
    if java is None:
        return dict(conf.getAll())
    # A value may contain any fixed separator.
    separator = uuid4().hex
    jvm: Any = sc._jvm
    text = str(jvm.scala.collection.mutable.ArraySeq.make(java.getAll()).mkString(separator))
    # An entry has Scala's notation of a pair: (key,value).
    pairs = (entry[1:-1].partition(",") for entry in text.split(separator) if entry)
    return {key: value for key, _comma, value in pairs}
