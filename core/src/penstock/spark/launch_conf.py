"""The configuration that a SparkContext gets from its environment: ``PYSPARK_SUBMIT_ARGS`` and ``spark-defaults.conf``.

Follows Spark's rules of precedence without starting Spark. Values are never printed, because they may be secrets.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

from penstock.errors import ConfigurationError

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


@frozen
class Property:
    """A line of a properties file.

    Attributes:
        key: before the first space, ``=`` or ``:``.
        value: the rest.
        line: its number, from 1.
    """

    key: str
    value: str
    line: int


def read_properties(path: Path) -> list[Property]:
    """The properties in a file such as ``spark-defaults.conf``.

    Raises:
        OSError: it cannot be read.
    """
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    found = ((number, _PROPERTY.fullmatch(line)) for number, line in lines)
    return [Property(match[1], match[2], number) for number, match in found if match]


def conf_here(args: Sequence[str] | None = None) -> dict[str, str]:
    """The configuration of a SparkContext created here, key → value.

    Args:
        args: options of spark-submit; by default those in ``PYSPARK_SUBMIT_ARGS``.

    Raises:
        ConfigurationError: ``PYSPARK_SUBMIT_ARGS`` cannot be parsed.
    """
    options, pairs = _options(_held() if args is None else args)
    # An option overrides its key, whatever their order.
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
    chosen = options.get("--properties-file")
    found = _spark_defaults() if chosen is None or "--load-spark-defaults" in options else {}
    return found if chosen is None else found | _properties(Path(chosen))


def _held() -> list[str]:
    try:
        args = shlex.split(os.environ.get(_VARIABLE, ""))
    except ValueError as error:
        raise ConfigurationError(
            f"the environment variable {_VARIABLE} cannot be parsed: {error}: quote its values as in a shell"
        ) from None
    return args[:-1] if args[-1:] == [_SHELL] else args


def _spark_defaults() -> dict[str, str]:
    folder = _conf_folder()
    return _properties(folder / "spark-defaults.conf") if folder else {}


def _properties(path: Path) -> dict[str, str]:
    try:
        return {each.key: each.value for each in read_properties(path)}
    except OSError:
        return {}


def _conf_folder() -> Path | None:
    if chosen := os.environ.get("SPARK_CONF_DIR"):
        return Path(chosen)
    if home := os.environ.get("SPARK_HOME"):
        return Path(home) / "conf"
    pyspark = importlib.util.find_spec("pyspark")  # without importing it
    return Path(pyspark.origin).parent / "conf" if pyspark and pyspark.origin else None
