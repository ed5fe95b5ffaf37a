"""Configuration keys: each parses, and each error names key, value, reason and meaning."""

import pickle
import re
import subprocess
import sys
from pathlib import Path
from zoneinfo import ZoneInfo

import attrs
import pytest
from hypothesis import given, settings, strategies as st
from tests.docs.write_configuration import as_markdown

from penstock import conf, conf_values
from penstock.conf import KEYS, Settings
from penstock.conf_values import SizeLimit
from penstock.errors import ConfigurationError, shortened

#: Values that the key behind an attribute refuses; names and plain text take anything.
INVALID = {
    "block_interval_ms": ["0", "-1ms", "soon", "1.5s", "", "3 fortnights", "9" * 400 + "us"],
    "block_queue_size": ["0", "-1", "ten", "1.5", ""],
    "receiver_restart_delay_ms": ["later", "", "-1"],
    "max_rate_per_s": ["fast", "", "nan"],
    "backpressure_enabled": ["yes", "1", ""],
    "initial_rate_per_s": ["fast", "nan"],
    "concurrent_jobs": ["0", "-2", "two"],
    "graceful_stop_timeout_ms": ["never", "-5s"],
    "stop_gracefully_on_shutdown": ["on"],
    "max_failed_batches": ["-1", "all"],
    "max_pending_batches": ["-1", "1.5"],
    "max_unprocessed": ["-1", "101%", "half", "x%"],
    "on_max_pending_batches": ["drop", "Pause", ""],
    "late_ticks": ["skipped", "true"],
    "time_zone": ["Mars/Olympus"],
    "unpersist": ["off"],
    "plugins_strict": ["no"],
    "listener_queue_size": ["0", "many"],
    "max_buffered_records": ["0", "64m"],
    "max_buffered_bytes": ["0", "64x", "a lot"],
    "store_retries": ["some", "-1"],
    "wal_enabled": ["on", ""],
    "wal_max_failures": ["0", "-1", "few"],
    "durability": ["sync", "Flush", ""],
    "partition_min_bytes": ["0", "x"],
    "partition_max_bytes": ["0", "x"],
    "partition_number": ["-1", "x"],
    "burst_ms": ["0", "-1s", "x"],
    "driver_port": ["80", "65536", "-1", "http"],
    "wire_timeout_ms": ["0", "x"],
    "profile": ["Production", "prod", ""],
    "log_level": ["LOUD", ""],
    "log_format": ["xml", "JSON", ""],
}
RATES = ["max_rate_per_s", "max_total_rate_per_s", "initial_rate_per_s"]


IN_PRODUCTION = {attribute: key.in_production for attribute, key in KEYS.items() if key.in_production is not None}


def test_profile_production_has_defaults_of_its_own_for_keys_that_are_not_set() -> None:
    assert set(IN_PRODUCTION) == {"backpressure_enabled", "stop_gracefully_on_shutdown", "checkpoint_rebuild"}
    production, as_in_spark = parse(profile="production"), parse()
    for attribute in KEYS:
        differs = attribute in IN_PRODUCTION or attribute == "profile"
        assert (getattr(production, attribute) != getattr(as_in_spark, attribute)) is differs, attribute
    kept = parse(profile="production", checkpoint_rebuild="false")
    assert kept.checkpoint_rebuild is False
    assert kept.backpressure_enabled is True


def test_defaults_of_plugins_apply_in_production_to_keys_that_are_not_set() -> None:
    plugins = {conf.key("rate_estimator"): "clever", conf.key("block_interval_ms"): "1s"}
    production = parse(profile="production", block_interval_ms="50ms").with_plugins_defaults(plugins)
    assert production.rate_estimator == "clever"
    assert production.block_interval_ms == 50
    assert parse().with_plugins_defaults(plugins).rate_estimator == "pid"


def parse(**texts: str) -> Settings:
    """Settings with the keys behind some attributes set."""
    return Settings.parse({conf.key(attribute): text for attribute, text in texts.items()})


def test_every_setting_has_a_key() -> None:
    assert {field.name for field in attrs.fields(Settings)} == {*KEYS, "_pairs"}


@pytest.mark.parametrize("attribute", KEYS)
def test_default_is_a_valid_value(attribute: str) -> None:
    key = KEYS[attribute]
    default = KEYS[key.falls_back_to or attribute].default
    assert getattr(parse(**{attribute: default}), attribute) == getattr(Settings.parse({}), attribute)


@pytest.mark.parametrize(
    ("attribute", "text"),
    [pytest.param(name, text, id=f"{name}-{text[:12]!r}") for name, texts in INVALID.items() for text in texts],
)
def test_invalid_value_is_refused_with_key_value_and_meaning(attribute: str, text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(**{attribute: text})
    key = KEYS[attribute]
    assert str(caught.value).startswith(f"{key.name}={shortened(text)} is ")
    assert str(caught.value).endswith(key.help)


def test_limits_of_partitions_that_contradict_each_other_are_refused_with_both_keys() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(partition_min_bytes="2m", partition_max_bytes="1m")
    assert str(caught.value) == (
        "spark.penstock.partition.minBytes=2097152 bytes is larger than spark.penstock.partition.maxBytes=1048576 "
        "bytes: no partition can have both limits"
    )


def test_error_reads_as_key_value_reason_and_meaning() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(block_queue_size="0")
    assert str(caught.value) == (
        "spark.streaming.blockQueueSize=0 is not greater than zero. "
        "Maximum blocks of a receiver that wait to be stored. When the queue is full, `store` blocks."
    )


def test_key_names_are_unique_and_pass_spark_submit() -> None:
    names = [key.name for key in KEYS.values()]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"spark\.(streaming|penstock|port)\.[a-zA-Z.]+", name) for name in names)


def test_key_names_in_messages_exist() -> None:
    """``conf.key("…")`` runs in error paths: a wrong attribute there would hide the error."""
    core = Path(conf.__file__).parent
    named = {name for path in core.rglob("*.py") for name in re.findall(r"\bkey\([\"'](\w+)[\"']\)", path.read_text())}
    assert named
    assert named <= set(KEYS)


def test_defaults_are_sparks() -> None:
    settings = Settings.parse({})
    assert settings.block_interval_ms == 200
    assert settings.block_queue_size == 10
    assert settings.receiver_restart_delay_ms == 2000
    assert settings.max_rate_per_s is None
    assert settings.backpressure_enabled is False
    assert settings.rate_estimator == "pid"
    assert settings.concurrent_jobs == 1
    assert settings.stop_gracefully_on_shutdown is False
    assert settings.unpersist is True
    assert settings.plugins_disable == ()
    assert settings.log_level == "WARNING"


@pytest.mark.parametrize("attribute", RATES)
@pytest.mark.parametrize("text", ["0", "-1", "-1000.5"])
def test_rate_of_zero_or_less_means_no_limit(attribute: str, text: str) -> None:
    assert getattr(parse(**{attribute: text}), attribute) is None


@pytest.mark.parametrize("attribute", RATES)
def test_rate_may_be_below_one(attribute: str) -> None:
    assert getattr(parse(**{attribute: "0.25"}), attribute) == 0.25


def test_initial_rate_falls_back_to_maximum_rate() -> None:
    assert parse(max_rate_per_s="50").initial_rate_per_s == 50
    assert parse(max_rate_per_s="50", initial_rate_per_s="7.5").initial_rate_per_s == 7.5
    with pytest.raises(ConfigurationError, match=re.escape(f"{conf.key('max_rate_per_s')}=x is not a number")):
        parse(max_rate_per_s="x")


def test_burst_falls_back_to_block_interval() -> None:
    assert Settings.parse({}).burst_ms == 200
    assert parse(block_interval_ms="50ms").burst_ms == 50
    assert parse(block_interval_ms="50ms", burst_ms="1s").burst_ms == 1000


def test_is_set_ignores_fallback_and_default() -> None:
    settings = parse(max_rate_per_s="50")
    assert settings.is_set("max_rate_per_s")
    assert not settings.is_set("initial_rate_per_s")
    assert not settings.is_set("block_interval_ms")


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
def test_durations_have_sparks_spelling(text: str, ms: int) -> None:
    assert conf_values.parse_duration_ms(text) == ms


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [
        ("64", 64),
        ("64b", 64),
        ("1k", 1024),
        ("1KB", 1024),
        ("64m", 64 << 20),
        ("1mb", 1 << 20),
        ("2g", 2 << 30),
        ("1t", 1 << 40),
        ("2TB", 1 << 41),
        ("1p", 1 << 50),
        ("1pb", 1 << 50),
    ],
)
def test_sizes_have_sparks_spelling(text: str, num_bytes: int) -> None:
    assert conf_values.parse_size_bytes(text) == num_bytes


@given(st.integers(0, 10**12), st.sampled_from(["ms", "s", "m", "min", "h", "d"]))
@settings(max_examples=50, derandomize=True, deadline=None)
def test_duration_is_number_times_unit(number: int, unit: str) -> None:
    per_unit = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
    assert conf_values.parse_duration_ms(f"{number}{unit}") == number * per_unit[unit]


@pytest.mark.parametrize(("text", "value"), [("true", True), ("True", True), (" FALSE ", False)])
def test_boolean_ignores_case_and_space(text: str, value: bool) -> None:
    assert parse(backpressure_enabled=text).backpressure_enabled is value


@pytest.mark.parametrize(("text", "names"), [("", ()), (" ", ()), ("a", ("a",)), (" a , b,,c ", ("a", "b", "c"))])
def test_list_is_separated_by_commas(text: str, names: tuple[str, ...]) -> None:
    assert parse(plugins_disable=text).plugins_disable == names


@pytest.mark.parametrize("text", ["debug", "INFO", " Warning "])
def test_log_level_ignores_case_and_space(text: str) -> None:
    assert parse(log_level=text).log_level == text.strip().upper()


@pytest.mark.parametrize("text", ["pause", "drop-oldest", " drop-oldest "])
def test_choice_ignores_space(text: str) -> None:
    assert parse(on_max_pending_batches=text).on_max_pending_batches == text.strip()


def test_limit_of_unprocessed_blocks_is_size_or_share() -> None:
    assert Settings.parse({}).max_unprocessed == SizeLimit(share=0.5)
    assert parse(max_unprocessed="1k").max_unprocessed == SizeLimit(1024)
    assert parse(max_unprocessed="0%").max_unprocessed == SizeLimit()


def test_time_zone_is_optional() -> None:
    assert Settings.parse({}).time_zone is None
    assert parse(time_zone="Europe/Zurich").time_zone == ZoneInfo("Europe/Zurich")


def test_options_of_plugin_are_set_below_its_prefix() -> None:
    settings = Settings.parse(
        {
            "spark.penstock.receiver.socket.port": "1",
            "spark.penstock.receiver.socket.tls.file": "x",
            "spark.penstock.receiver.socketx.port": "2",
        }
    )
    assert settings.with_prefix("spark.penstock.receiver.socket.") == {"port": "1", "tls.file": "x"}


def test_settings_hold_streaming_keys_only_and_show_no_value() -> None:
    settings = Settings.parse({"spark.ssl.password": "hidden", "spark.penstock.receiver.mqtt.password": "secret"})
    assert settings.with_prefix("spark.ssl.") == {}
    assert repr(settings) == "Settings(spark.penstock.receiver.mqtt.password)"


def test_settings_are_pickled_to_executors() -> None:
    original = Settings.parse(
        {"spark.streaming.receiver.maxRate": "5", "spark.penstock.timeZone": "UTC", "spark.penstock.receiver.x.y": "z"}
    )
    copy = pickle.loads(pickle.dumps(original))
    assert copy == original
    assert copy.max_rate_per_s == 5
    assert copy.with_prefix("spark.penstock.receiver.x.") == {"y": "z"}


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Settings.parse({}).max_rate_per_s = 5.0  # type: ignore[misc]


def test_table_has_a_row_of_three_cells_for_each_key() -> None:
    rows = [line for line in as_markdown().splitlines() if line.startswith("| `")]
    assert len(rows) == len(KEYS)
    for key, row in zip(KEYS.values(), rows, strict=True):
        first, name, kind_and_default, meaning, last = row.split("|")
        assert (first, last) == ("", "")
        assert name.strip() == f"`{key.name}`"
        kind, _, default = kind_and_default.partition(", ")
        assert kind.strip()
        assert key.falls_back_to or key.default in default
        assert meaning.strip() == key.help
        assert len(key.help) > 20


def test_table_has_each_group_once() -> None:
    headings = [line for line in as_markdown().splitlines() if line.startswith("## ")]
    assert [heading[3:] for heading in headings] == [
        "Start here",
        "Inputs",
        "Receivers",
        "Rate",
        "Batches",
        "Recovery",
        "Network",
        "Security",
        "Advanced",
    ]


def test_module_prints_the_table() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "tests.docs.write_configuration"], capture_output=True, text=True, check=True
    )
    assert printed.stdout.strip() == as_markdown()
