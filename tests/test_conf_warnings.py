"""Keys that have no effect: unknown ones with the nearest valid key, Spark's ignored ones with what to use instead."""

from __future__ import annotations

import pytest
from pyspark import SparkConf, SparkContext

from penstock import StreamingContext
from penstock.conf import KEYS, Settings
from penstock.conf_warnings import IGNORED, KeyWarning, keys_without_effect

OPTIONS = {
    "spark.penstock.receiver.socket.": ["host", "port"],
    "spark.penstock.receiver.raw-socket.": ["max_frame_bytes"],
    "spark.penstock.input.text-file.": ["directory"],
    "spark.streaming.backpressure.pid.": ["minRate"],
    "spark.streaming.backpressure.model.": [],
    "spark.penstock.ui.": None,
}


def warnings(**pairs: str) -> list[KeyWarning]:
    return keys_without_effect(Settings.parse(pairs), OPTIONS)


def warning_of(name: str) -> KeyWarning:
    (warning,) = warnings(**{name: "1"})
    assert warning.key == name
    return warning


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("spark.penstock.receiver.maxRestart", "spark.penstock.receiver.maxRestarts"),
        ("spark.penstock.reciever.maxRestarts", "spark.penstock.receiver.maxRestarts"),
        ("spark.penstock.maxFailedBatch", "spark.penstock.maxFailedBatches"),
        ("spark.penstock.blocks.maxUnprocesed", "spark.penstock.blocks.maxUnprocessed"),
        ("spark.penstock.mine", None),
        ("spark.streaming.backpressure.enable", "spark.streaming.backpressure.enabled"),
        ("spark.streaming.blockinterval", "spark.streaming.blockInterval"),
        ("spark.streaming.ui.retainedBatch", "spark.streaming.ui.retainedBatches"),
        ("spark.streaming.backpresure.enabled", "spark.streaming.backpressure.enabled"),
        ("spark.streaming.reciever.maxRate", "spark.streaming.receiver.maxRate"),
        ("spark.streaming.driver.writeaheadlog.maxFailure", "spark.streaming.driver.writeAheadLog.maxFailures"),
    ],
)
def test_unknown_key_is_named_with_the_nearest_one(name: str, nearest: str | None) -> None:
    assert warning_of(name).advice == (f"did you mean {nearest}?" if nearest else "")


@pytest.mark.parametrize(
    ("name", "kind", "plugin", "nearest"),
    [
        ("spark.penstock.receiver.sockt.port", "receiver", "sockt", "spark.penstock.receiver.socket.port"),
        (
            "spark.penstock.input.textfile.directory",
            "input stream",
            "textfile",
            "spark.penstock.input.text-file.directory",
        ),
        (
            "spark.streaming.backpressure.pdi.minRate",
            "rate estimator",
            "pdi",
            "spark.streaming.backpressure.pid.minRate",
        ),
        ("spark.penstock.receiver.kafka.topic", "receiver", "kafka", None),
        ("spark.penstock.receiver.burst.size", "receiver", "burst", None),
    ],
)
def test_misspelled_plugin_is_named_with_the_nearest_one(
    name: str, kind: str, plugin: str, nearest: str | None
) -> None:
    warning = warning_of(name)
    assert warning.reason == f"no installed plugin offers the {kind} {plugin!r}"
    assert warning.advice == (f"did you mean {nearest}?" if nearest else "")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("spark.penstock.receiver.socket.prot", "spark.penstock.receiver.socket.port"),
        ("spark.streaming.backpressure.pid.minrate", "spark.streaming.backpressure.pid.minRate"),
        ("spark.streaming.backpressure.model.share", None),
    ],
)
def test_unknown_option_of_an_installed_plugin_is_named_with_the_nearest_one(name: str, nearest: str | None) -> None:
    assert warning_of(name) == KeyWarning(name, "unknown option", f"did you mean {nearest}?" if nearest else "")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("spark.penstock.alerts.webhook", "if it is a plugin's: pip install penstock-alerts"),
        # The core has keys below these names; a plugin's name has no capital letters.
        ("spark.penstock.plugins.colour", ""),
        ("spark.penstock.eventLogs.colour", ""),
        ("spark.penstock.alerts", ""),
    ],
)
def test_key_of_a_plugin_that_is_not_installed_is_named_with_its_distribution(name: str, advice: str) -> None:
    assert warning_of(name) == KeyWarning(name, "unknown key", advice)


def test_option_without_its_section_is_named_with_the_full_key() -> None:
    warning = warning_of("spark.penstock.socket.port")
    assert warning.advice == "did you mean spark.penstock.receiver.socket.port?"


@pytest.mark.parametrize("name", [name + "enabled" if name.endswith(".") else name for name in IGNORED])
def test_ignored_key_of_spark_is_named_with_what_to_use_instead(name: str) -> None:
    warning = warning_of(name)
    assert warning.reason == "ignored by Penstock"
    assert len(warning.advice) > 20


@pytest.mark.parametrize(
    "name",
    [
        "spark.penstock.receiver.socket.port",
        "spark.penstock.receiver.raw-socket.max_frame_bytes",
        "spark.penstock.input.text-file.directory",
        "spark.penstock.ui.port",
        "spark.streaming.backpressure.pid.minRate",
        "spark.streaming.somebody.elses.key",
        "spark.streaming.sources.maxRate",
        "spark.app.name",
        "spark.executor.memroy",
    ],
)
def test_options_of_installed_plugins_and_foreign_keys_are_not_reported(name: str) -> None:
    assert warnings(**{name: "1"}) == []


def test_known_keys_are_not_reported() -> None:
    assert warnings(**{key.name: KEYS[key.falls_back_to or name].default for name, key in KEYS.items()}) == []


def test_ignored_keys_are_not_known_keys() -> None:
    assert not {key.name for key in KEYS.values()} & set(IGNORED)


def test_warnings_are_sorted_by_key() -> None:
    found = warnings(**{"spark.streaming.clock": "x", "spark.penstock.b": "1", "spark.penstock.a": "1"})
    assert [warning.key for warning in found] == ["spark.penstock.a", "spark.penstock.b", "spark.streaming.clock"]


class FakeSpark(SparkContext):
    """A SparkContext that has a configuration and nothing else."""

    master = "local[2]"

    def __init__(self, **pairs: str) -> None:
        self.pairs = pairs

    def getConf(self) -> SparkConf:
        return SparkConf(loadDefaults=False).setAll(list(self.pairs.items()))


def test_rate_estimator_without_rate_control_is_named() -> None:
    estimator = "spark.streaming.backpressure.rateEstimator"
    (warning,) = warnings(**{estimator: "model"})
    assert warning == KeyWarning(estimator, "rate control is off", "set spark.streaming.backpressure.enabled=true")
    assert warnings(**{estimator: "model", "spark.streaming.backpressure.enabled": "true"}) == []


def test_context_logs_keys_without_effect(caplog: pytest.LogCaptureFixture) -> None:
    StreamingContext(FakeSpark(**{"spark.penstock.maxFailedBatch": "3", "spark.streaming.clock": "x"}), 1.0)
    lines = [line for line in caplog.text.splitlines() if "configuration key without effect" in line]
    assert len(lines) == 2
    assert "key=spark.penstock.maxFailedBatch" in lines[0]
    assert "did you mean spark.penstock.maxFailedBatches?" in lines[0]
    assert "key=spark.streaming.clock" in lines[1]
    assert "clock=..." in lines[1]


def test_context_logs_the_key_of_unix_domain_sockets_when_they_are_off(caplog: pytest.LogCaptureFixture) -> None:
    StreamingContext(FakeSpark(), 1.0)
    assert "key=spark.python.unix.domain.socket.enabled" in caplog.text
    caplog.clear()
    StreamingContext(FakeSpark(**{"spark.python.unix.domain.socket.enabled": "true"}), 1.0)
    assert caplog.text == ""
