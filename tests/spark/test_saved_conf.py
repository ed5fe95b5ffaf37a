"""The saved configuration, and the current one that overrides it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.errors import CheckpointError
from penstock.spark import saved_conf

LAUNCH = {"spark.app.name": "counts", "spark.master": "local[4]", "spark.driver.memory": "2g"}
PROGRESS = "spark.ui.showConsoleProgress"
SAVED = {**LAUNCH, "own": "saved", "other": "saved"}


class Conf(dict[str, str]):
    """As PySpark's, once there is a JVM."""

    def setIfMissing(self, key: str, value: str) -> Conf:
        self.setdefault(key, value)
        return self

    def setAppName(self, name: str) -> Conf:
        return self.set("spark.app.name", name)

    def set(self, key: str, value: str) -> Conf:
        self[key] = value
        return self

    def setAll(self, pairs: Any) -> Conf:
        self.update(pairs)
        return self

    def getAll(self) -> list[tuple[str, str]]:
        return list(self.items())


class Spark:
    """A PySpark whose JVM, when it is there, says what it was launched with and what the new process says."""

    _active_spark_context = None

    def __init__(self, says: dict[str, str]) -> None:
        self._says = says
        self._properties = dict[str, str]()
        self.launched_with: dict[str, str] | None = None

    def _ensure_initialized(self, conf: Conf | None = None) -> None:
        self.launched_with = dict(conf or {})
        self._properties = {**self.launched_with, **self._says}

    def getOrCreate(self, conf: Conf) -> Conf:
        return conf

    def conf(self, *, loadDefaults: bool = True) -> Conf:
        return Conf(self._properties if loadDefaults else {})


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Spark:
    made = Spark({"own": "current", "spark.app.name": "app.py"})
    monkeypatch.setattr(saved_conf, "SparkContext", made)
    monkeypatch.setattr(saved_conf, "SparkConf", made.conf)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", "/no folder")
    return made


def test_secrets_and_values_of_one_process_are_not_saved() -> None:
    secret = [
        "spark.authenticate.secret",
        "spark.ssl.keyStorePassword",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.my.TOKEN",
        "spark.my.passwd",
        "spark.my.credentials",
        "own.accessKey",
        "spark.hadoop.fs.azure.account.key.store.dfs.core.windows.net",
        "spark.penstock.receiver.mine.api_key",
        "spark.my.pin",
        "own.tokens.of",  # also what only looks like one
    ]
    own = ["spark.app.id", "spark.app.startTime", "spark.driver.host", "spark.driver.port", "spark.executor.id"]
    saved = {**SAVED, "spark.redaction.regex": "(?i)secret|PIN"}
    pairs = {**saved, **dict.fromkeys([*secret, *own], "hush")}
    assert saved_conf.conf_to_save(cast(Any, SimpleNamespace(getConf=lambda: Conf(pairs)))) == saved


def test_current_configuration_overrides_the_saved_one_except_the_name(spark: Spark) -> None:
    made: Any = saved_conf.spark_context(SAVED)
    assert made == {**SAVED, "own": "current", PROGRESS: "false"}
    # What files of defaults say of the rest would lose to it.
    assert spark.launched_with == {**LAUNCH, PROGRESS: "false"}


def test_spark_defaults_override_the_saved_launch_configuration(
    spark: Spark, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # What the JVM is launched with wins over them there.
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.master local[3]\nspark.jars own.jar\nspark.app.name no\nspark.penstock.checkpoint.rebuild true\n"
        f"{PROGRESS} true\n"
    )
    assert saved_conf.current_conf()["spark.penstock.checkpoint.rebuild"] == "true"
    saved_conf.spark_context({**SAVED, "spark.jars": "saved.jar", "spark.files": "saved"})
    assert spark.launched_with == {"spark.app.name": "counts", "spark.driver.memory": "2g", "spark.files": "saved"}
    # Of a JVM that is there it is known already.
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "4711")
    assert "spark.penstock.checkpoint.rebuild" not in saved_conf.current_conf()


def test_current_configuration_without_a_jvm_is_that_of_its_launch(
    spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert saved_conf.current_conf() == {}
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf 'a=1 2' --master local[3] --conf b=x=y -c c=3 pyspark-shell")
    assert saved_conf.current_conf() == {"a": "1 2", "b": "x=y", "c": "3", "spark.master": "local[3]"}
    # It is not launched: it would have none of the program's own configuration.
    assert spark.launched_with is None


def test_current_configuration_under_spark_submit_is_that_of_its_jvm(
    spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "4711")
    assert saved_conf.current_conf() == {"own": "current", "spark.app.name": "app.py"}


def test_launch_under_another_name_is_refused(spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    # None is given.
    saved_conf.check_name("counts", "")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--name other pyspark-shell")
    assert saved_conf.launched_as() == "other"
    with pytest.raises(
        CheckpointError, match="belongs to the application 'counts', but this process was launched as 'other'"
    ):
        saved_conf.check_name("counts", "")
    # Its code calls it counts.
    saved_conf.check_name("counts", "other")
    saved_conf.check_name("other", "")


def test_name_of_the_program_file_does_not_count_as_a_name(spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "4711")
    monkeypatch.setattr("sys.argv", ["/jobs/app.py", "argument"])
    assert saved_conf.launched_as() == ""
    monkeypatch.setattr("sys.argv", ["/jobs/job.py"])
    assert saved_conf.launched_as() == "app.py"
