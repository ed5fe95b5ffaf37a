"""What a program started from here would be configured with."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.spark_conf import conf_here
from penstock.errors import ConfigurationError


@pytest.fixture
def defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    (tmp_path / "conf").mkdir()
    return tmp_path / "conf" / "spark-defaults.conf"


def test_nothing() -> None:
    assert conf_here() == {}


def test_spark_defaults(defaults: Path) -> None:
    defaults.write_text("# a comment\n\n  spark.a   1 2 \nspark.b=x=y\nspark.c: z\nspark.d\n")
    assert conf_here() == {"spark.a": "1 2", "spark.b": "x=y", "spark.c": "z", "spark.d": ""}


def test_submit_args_win(defaults: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    defaults.write_text("spark.a 1\nspark.b 1\n")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--name x -c spark.c=3 --conf 'spark.a=1 2' pyspark-shell")
    assert conf_here() == {"spark.a": "1 2", "spark.b": "1", "spark.c": "3"}


def test_a_folder_of_its_own(defaults: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    defaults.write_text("spark.a 1\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "elsewhere"))
    assert conf_here() == {}


def test_submit_args_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf 'spark.a=hush")
    with pytest.raises(ConfigurationError) as caught:
        conf_here()
    assert "hush" not in str(caught.value)
