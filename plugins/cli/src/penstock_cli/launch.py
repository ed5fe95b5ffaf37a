"""Launch parameters of programs: ``spark-submit``, the options in ``PYSPARK_SUBMIT_ARGS``, and the local master.

Values are never printed, because they may be secrets.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock import ConfigurationError
from penstock.spi import conf_here

UDS = "spark.python.unix.domain.socket.enabled"
#: Spark's progress bar: the stage of a receiver never ends, so the bar would cover each line of output.
PROGRESS = "spark.ui.showConsoleProgress"

_VARIABLE = "PYSPARK_SUBMIT_ARGS"
# The program that PySpark asks spark-submit to run; the last argument.
_SHELL = "pyspark-shell"


def set_submit_args(defaults: Mapping[str, str], options: Sequence[str]) -> None:
    """Add configuration for the next SparkContext of this process or of a child process.

    The program's own SparkConf overrides it.

    Args:
        defaults: key → value; overridden by the present ``PYSPARK_SUBMIT_ARGS``, and by ``spark-defaults.conf`` or the
            file named by ``--properties-file``.
        options: options of spark-submit; they override the present ``PYSPARK_SUBMIT_ARGS``.

    Raises:
        ConfigurationError: the present ``PYSPARK_SUBMIT_ARGS`` cannot be parsed.
    """
    conf_here()  # raises if the variable cannot be parsed
    present = shlex.split(os.environ.get(_VARIABLE, ""))
    present = present[:-1] if present[-1:] == [_SHELL] else present
    os.environ[_VARIABLE] = shlex.join([*submit_options(defaults, [*present, *options]), _SHELL])


def submit_options(defaults: Mapping[str, str], options: Sequence[str]) -> list[str]:
    """Return options of spark-submit, preceded by the defaults that neither they nor a file of properties set.

    Args:
        defaults: key → value.
        options: options of spark-submit.
    """
    configured = conf_here(options)
    weak = [part for key, value in defaults.items() if key not in configured for part in ("--conf", f"{key}={value}")]
    return [*weak, *options]


def spark_submit() -> str:
    """The path of ``spark-submit``: from ``SPARK_HOME`` if set, otherwise from PySpark.

    Raises:
        ConfigurationError: ``spark-submit`` is missing.
    """
    home = os.environ.get("SPARK_HOME")
    if home is None:
        pyspark = importlib.util.find_spec("pyspark")
        home = str(Path(pyspark.origin).parent) if pyspark and pyspark.origin else ""
    path = Path(home) / "bin" / "spark-submit"
    if not path.is_file():
        raise ConfigurationError(f"no spark-submit at {path}: set SPARK_HOME to a Spark installation, or unset it")
    return str(path)


def local_master(receivers: int) -> str:
    """The master ``local[n]`` with a slot for each core and each receiver, which occupies its slot."""
    return f"local[{_cores() + receivers}]"


def _cores() -> int:
    """The cores that this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
