"""``conf_here``: the configuration of a SparkContext created here."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import ConfigurationError
from penstock.spi import conf_here
from penstock_cli.launch import spark_submit


@pytest.fixture(autouse=True)
def _nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    (tmp_path / "conf").mkdir()
    return tmp_path / "conf" / "spark-defaults.conf"


def test_configuration_is_empty_by_default() -> None:
    assert conf_here() == {}


def test_spark_defaults_are_read(defaults: Path) -> None:
    defaults.write_text("# a comment\n\n  spark.a   1 2 \nspark.b=x=y\nspark.c: z\nspark.d\n")
    assert conf_here() == {"spark.a": "1 2", "spark.b": "x=y", "spark.c": "z", "spark.d": ""}


def test_submit_args_override_spark_defaults(defaults: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    defaults.write_text("spark.a 1\nspark.b 1\n")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--name x -c spark.c=3 --conf 'spark.a=1 2' pyspark-shell")
    assert conf_here() == {"spark.a": "1 2", "spark.b": "1", "spark.c": "3", "spark.app.name": "x"}


def test_options_override_their_keys(defaults: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    defaults.write_text("spark.master local[3]\nspark.driver.memory 700m\n")
    args = (
        "--verbose --driver-memory=800m --conf=spark.a=x=y --master local[5] --conf spark.master=local[4] pyspark-shell"
    )
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", args)
    assert conf_here() == {"spark.master": "local[5]", "spark.driver.memory": "800m", "spark.a": "x=y"}


def test_conf_without_a_value_is_left_to_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.a --conf spark.b=1 pyspark-shell")
    assert conf_here() == {"spark.b": "1"}


def test_spark_submit_is_that_of_spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert spark_submit().endswith("/pyspark/bin/spark-submit")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match=f"no spark-submit at {tmp_path}/bin/spark-submit: set SPARK_HOME to"):
        spark_submit()


def test_named_properties_file_replaces_spark_defaults(
    defaults: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults.write_text("spark.a 1\nspark.b 1\n")
    (tmp_path / "mine").write_text("spark.a 2\n")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--properties-file {tmp_path / 'mine'} pyspark-shell")
    assert conf_here() == {"spark.a": "2"}
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--load-spark-defaults --properties-file {tmp_path / 'mine'}")
    assert conf_here() == {"spark.a": "2", "spark.b": "1"}


def test_spark_conf_dir_is_respected(defaults: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    defaults.write_text("spark.a 1\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "elsewhere"))
    assert conf_here() == {}


def test_invalid_submit_args_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf 'spark.a=hush")
    with pytest.raises(ConfigurationError) as caught:
        conf_here()
    assert "hush" not in str(caught.value)
