"""Configuration keys: each parses, each says what is wrong with a value."""

import math
import pickle
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import conf, conf_values
from penstock.conf import KEYS, Key, Settings
from penstock.errors import ConfigurationError

#: A value that each kind of key refuses; names and plain text take anything.
WRONG = {
    conf.BLOCK_INTERVAL: ["0", "-1ms", "soon", "1.5s", "", "3 fortnights"],
    conf.BLOCK_QUEUE_SIZE: ["0", "-1", "ten", "1.5", ""],
    conf.RECEIVER_RESTART_DELAY: ["later", ""],
    conf.MAX_RATE: ["fast", "", "nan"],
    conf.BACKPRESSURE_ENABLED: ["yes", "1", ""],
    conf.INITIAL_RATE: ["fast", "nan"],
    conf.CONCURRENT_JOBS: ["0", "-2", "two"],
    conf.GRACEFUL_STOP_TIMEOUT: ["never"],
    conf.STOP_GRACEFULLY_ON_SHUTDOWN: ["on"],
    conf.GENERATION_RETRIES: ["-1", "often", ""],
    conf.MAX_FAILED_BATCHES: ["-1", "all"],
    conf.MAX_PENDING_BATCHES: ["-1", "1.5"],
    conf.ON_MAX_PENDING_BATCHES: ["drop", "Pause", ""],
    conf.LATE_TICKS: ["skipped", "true"],
    conf.UNPERSIST: ["off"],
    conf.PLUGINS_STRICT: ["no"],
    conf.LISTENER_QUEUE_SIZE: ["0", "many"],
    conf.LISTENER_MAX_FAILURES: ["0", "x"],
    conf.MAX_BUFFERED_RECORDS: ["0", "64m"],
    conf.MAX_BUFFERED_BYTES: ["0", "64x", "a lot"],
    conf.STORE_RETRIES: ["some"],
    conf.WRITE_AHEAD_LOG: ["on", ""],
    conf.WRITE_AHEAD_LOG_MAX_FAILURES: ["0", "-1", "few"],
    conf.DURABILITY: ["sync", "Flush", ""],
    conf.RELAUNCH_DELAY: ["0", "x"],
    conf.MAX_RELAUNCH_DELAY: ["0", "x"],
    conf.PARTITION_BYTES: ["0", "x"],
    conf.BURST: ["0", "-1s", "x"],
    conf.WIRE_TIMEOUT: ["0", "x"],
    conf.LOG_LEVEL: ["LOUD", ""],
}


@pytest.mark.parametrize("key", KEYS, ids=[key.name for key in KEYS])
def test_every_default_can_be_read(key: Key[object]) -> None:
    value = Settings({})[key]
    assert value is not None or not key.default
    assert Settings({key.name: (key.falls_back_to or key).default})[key] == value


@pytest.mark.parametrize(
    ("key", "text"), [pytest.param(key, text, id=f"{key.name}-{text!r}") for key in WRONG for text in WRONG[key]]
)
def test_a_wrong_value_is_refused_with_key_and_value(key: Key[object], text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Settings({key.name: text})[key]
    assert key.name in str(caught.value)
    assert repr(text) in str(caught.value)
    with pytest.raises(ConfigurationError, match=re.escape(key.name)):
        Settings({key.name: text}).check()


def test_every_name_is_there_once_and_starts_as_spark_lets_it_through() -> None:
    names = [key.name for key in KEYS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"spark\.(streaming|penstock)\.[a-zA-Z.]+", name) for name in names)


def test_the_defaults_are_sparks() -> None:
    settings = Settings({})
    assert settings[conf.BLOCK_INTERVAL] == 200
    assert settings[conf.BLOCK_QUEUE_SIZE] == 10
    assert settings[conf.RECEIVER_RESTART_DELAY] == 2000
    assert settings[conf.MAX_RATE] == math.inf
    assert settings[conf.BACKPRESSURE_ENABLED] is False
    assert settings[conf.RATE_ESTIMATOR] == "pid"
    assert settings[conf.CONCURRENT_JOBS] == 1
    assert settings[conf.STOP_GRACEFULLY_ON_SHUTDOWN] is False
    assert settings[conf.UNPERSIST] is True
    assert settings[conf.PLUGINS_DISABLE] == ()
    assert settings[conf.LOG_LEVEL] == "WARNING"
    settings.check()


@pytest.mark.parametrize("key", [conf.MAX_RATE, conf.MAX_TOTAL_RATE, conf.INITIAL_RATE], ids=lambda key: key.name)
@pytest.mark.parametrize("text", ["0", "-1", "-1000.5"])
def test_a_rate_of_zero_or_less_means_no_limit(key: Key[float], text: str) -> None:
    assert Settings({key.name: text})[key] == math.inf


@pytest.mark.parametrize("key", [conf.MAX_RATE, conf.MAX_TOTAL_RATE, conf.INITIAL_RATE], ids=lambda key: key.name)
def test_a_rate_may_be_below_one(key: Key[float]) -> None:
    assert Settings({key.name: "0.25"})[key] == 0.25


def test_the_initial_rate_falls_back_to_the_maximum() -> None:
    assert Settings({conf.MAX_RATE.name: "50"})[conf.INITIAL_RATE] == 50
    assert Settings({conf.MAX_RATE.name: "50", conf.INITIAL_RATE.name: "7.5"})[conf.INITIAL_RATE] == 7.5
    with pytest.raises(ConfigurationError, match=re.escape(f"{conf.MAX_RATE.name}='x'")):
        Settings({conf.MAX_RATE.name: "x"})[conf.INITIAL_RATE]


def test_the_burst_is_a_block_interval_or_as_set() -> None:
    assert Settings({})[conf.BURST] == 200
    assert Settings({conf.BLOCK_INTERVAL.name: "50ms"})[conf.BURST] == 50
    assert Settings({conf.BLOCK_INTERVAL.name: "50ms", conf.BURST.name: "1s"})[conf.BURST] == 1000


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("200ms", 200),
        ("200", 200),
        (" 200 ", 200),
        ("2s", 2000),
        ("2S", 2000),
        ("2 s", 2000),
        ("3m", 180_000),
        ("3min", 180_000),
        ("1h", 3_600_000),
        ("1d", 86_400_000),
        ("5000us", 5),
    ],
)
def test_durations(text: str, ms: int) -> None:
    assert conf_values.duration_ms(text) == ms


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [("64", 64), ("64b", 64), ("1k", 1024), ("1KB", 1024), ("64m", 64 << 20), ("1mb", 1 << 20), ("2g", 2 << 30)],
)
def test_sizes(text: str, num_bytes: int) -> None:
    assert conf_values.size_bytes(text) == num_bytes


@given(st.integers(0, 10**12), st.sampled_from(["ms", "s", "m", "min", "h", "d"]))
@settings(max_examples=50, derandomize=True, deadline=None)
def test_a_duration_is_its_number_times_its_unit(number: int, unit: str) -> None:
    per_unit = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
    assert conf_values.duration_ms(f"{number}{unit}") == number * per_unit[unit]


@pytest.mark.parametrize(("text", "value"), [("true", True), ("True", True), (" FALSE ", False)])
def test_booleans(text: str, value: bool) -> None:
    assert conf_values.boolean(text) is value


@pytest.mark.parametrize(("text", "names"), [("", ()), (" ", ()), ("a", ("a",)), (" a , b,,c ", ("a", "b", "c"))])
def test_lists_of_names(text: str, names: tuple[str, ...]) -> None:
    assert conf_values.names(text) == names


@pytest.mark.parametrize("text", ["debug", "INFO", " Warning "])
def test_levels(text: str) -> None:
    assert conf_values.level(text) == text.strip().upper()


@pytest.mark.parametrize("text", ["pause", "drop-oldest", " drop-oldest "])
def test_choices(text: str) -> None:
    assert Settings({conf.ON_MAX_PENDING_BATCHES.name: text})[conf.ON_MAX_PENDING_BATCHES] == text.strip()


def test_options_of_a_plugin_are_what_was_set_below_its_prefix() -> None:
    settings = Settings(
        {
            "spark.penstock.receiver.socket.port": "1",
            "spark.penstock.receiver.socket.tls.file": "x",
            "spark.penstock.receiver.socketx.port": "2",
        }
    )
    assert settings.under("spark.penstock.receiver.socket.") == {"port": "1", "tls.file": "x"}


def test_settings_keep_what_is_theirs_and_show_no_value() -> None:
    settings = Settings({"spark.ssl.password": "hidden", "spark.penstock.receiver.mqtt.password": "secret"})
    assert settings.under("spark.ssl.") == {}
    assert repr(settings) == "Settings(spark.penstock.receiver.mqtt.password)"


def test_settings_travel() -> None:
    settings = pickle.loads(pickle.dumps(Settings({conf.MAX_RATE.name: "5"})))
    assert settings[conf.MAX_RATE] == 5


def test_the_table_has_a_row_of_three_cells_for_each_key() -> None:
    header, line, *rows = conf.as_markdown().splitlines()
    assert (header, line) == ("| key | default | meaning |", "|---|---|---|")
    assert len(rows) == len(KEYS)
    for key, row in zip(KEYS, rows, strict=True):
        cells = row.split("|")
        assert [cells[0], cells[-1]] == ["", ""]
        assert len(cells) == 5
        assert cells[1].strip() == f"`{key.name}`"
        assert key.default in cells[2]
        assert len(key.meaning) > 20


def test_the_table_is_printed_by_the_module() -> None:
    printed = subprocess.run([sys.executable, "-m", "penstock.conf"], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == conf.as_markdown()


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("spark.penstock.receiver.maxRestart", "spark.penstock.receiver.maxRestarts"),
        ("spark.penstock.reciever.maxRestarts", "spark.penstock.receiver.maxRestarts"),
        ("spark.penstock.maxFailedBatch", "spark.penstock.maxFailedBatches"),
        ("spark.streaming.backpressure.enable", "spark.streaming.backpressure.enabled"),
        ("spark.streaming.blockinterval", "spark.streaming.blockInterval"),
    ],
)
def test_a_name_that_is_nearly_a_keys_is_told(name: str, near: str) -> None:
    assert Settings({name: "1", near: "1", "spark.app.name": "x"}).misspelled() == {name: near}


@pytest.mark.parametrize(
    "name",
    [
        *(key.name for key in KEYS),
        # A plugin's, and Spark's own.
        "spark.penstock.receiver.socket.port",
        "spark.penstock.receiver.burst.size",
        "spark.penstock.receiver.kafka.maxRestarts",
        "spark.penstock.mine",
        "spark.streaming.backpressure.pid.minRate",
        "spark.streaming.kafka.maxRatePerPartition",
        "spark.streaming.dynamicAllocation.enabled",
        "spark.streaming.ui.retainedBatches",
    ],
)
def test_other_names_are_nobodys_business(name: str) -> None:
    assert Settings({name: "1"}).misspelled() == {}
