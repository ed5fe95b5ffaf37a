"""One JVM for the drivers of several programs, one after the other: it starts as slowly as a short program runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.java_gateway import launch_gateway

from penstock_cli.java import ensure_java

#: For programs whose Python workers are forked from PySpark's own daemon, as a user's are.
PYSPARKS_DAEMON = {"spark.python.daemon.module": "pyspark.daemon"}


class SharedJvm:
    """A JVM that PySpark programs with the variables of ``environment`` use instead of one of their own.

    It outlives them: the programs must not need its end. Only one of them may run at a time.

    Args:
        folder: the working directory, which should be that of the programs: Spark resolves relative paths in the JVM.
    """

    def __init__(self, folder: Path) -> None:
        ensure_java()
        self.folder = folder
        self._gateway: Any = launch_gateway(popen_kwargs={"cwd": folder})
        self._before: dict[str, str | None] = {}

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which PySpark connects to this JVM."""
        java = self._gateway.java_parameters
        return {**os.environ, "PYSPARK_GATEWAY_PORT": str(java.port), "PYSPARK_GATEWAY_SECRET": java.auth_token}

    def prepare(self, conf: Mapping[str, str]) -> None:
        """Stop a SparkContext that a killed program has left, and set the configuration of the next program."""
        jvm = self._gateway.jvm
        left = getattr(getattr(jvm.org.apache.spark, "SparkContext$"), "MODULE$").getActive()
        if left.isDefined():
            left.get().stop()
        for key, value in self._before.items():
            if value is None:
                jvm.System.clearProperty(key)
            else:
                jvm.System.setProperty(key, value)
        self._before = {key: jvm.System.getProperty(key) for key in conf}
        for key, value in conf.items():
            jvm.System.setProperty(key, value)

    def close(self) -> None:
        """End the JVM."""
        self.prepare({})
        self._gateway.shutdown()
        # Its Python is gone, it believes: so it ends.
        self._gateway.proc.stdin.close()
        self._gateway.proc.wait(60)
