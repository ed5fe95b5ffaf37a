"""Specs of plugins, and how their options are read."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from penstock import InputStreamSpec, RateEstimator, RateEstimatorSpec, ReceiverSpec
from penstock.conf import Settings
from penstock.errors import ConfigurationError, UnknownNameError
from penstock.plugins.specs import Option, Spec


@attrs.frozen
class Options:
    host: str
    port: int = attrs.field(default=9999, metadata={"help": "where it listens"})
    delay: float = 1.5
    eager: bool = False
    limit: int | None = None
    tags: list[str] = attrs.field(factory=list)
    password: str = attrs.field(default="hunter2", repr=False)
    _hidden: str = "x"
    derived: int = attrs.field(init=False, default=0)


SPEC = ReceiverSpec("net", dict, Options, "from the net")


def read(**values: Any) -> Any:
    return SPEC.read_options(values)


def test_options_are_described_with_readable_types() -> None:
    described = Option.of(SPEC.options)
    assert described[:2] == [
        Option("host", "text", None, ""),
        Option("port", "integer", "9999", "where it listens"),
    ]
    defaults = {option.name: option.default for option in described}
    assert defaults["tags"] == "(created per instance)"
    assert defaults["password"] == "(hidden)"
    assert "hidden" in defaults
    assert "derived" not in defaults


@pytest.mark.parametrize("spec", [ReceiverSpec("a", dict), InputStreamSpec("a", dict), RateEstimatorSpec("a", object)])
def test_spec_without_options_accepts_none(spec: Spec) -> None:
    assert Option.of(spec.options) == []
    assert spec.read_options({}) is None
    with pytest.raises(UnknownNameError, match=f"unknown option 'port' of {spec.kind} 'a'"):
        spec.read_options({"port": 1})


def test_text_is_converted_to_the_fields_type() -> None:
    options = read(host="h", port="80", delay="0.5", eager="True", limit="7", hidden="y")
    assert options == Options("h", 80, 0.5, True, 7, hidden="y")
    assert [type(value) for value in (options.port, options.delay, options.eager, options.limit)] == [
        int,
        float,
        bool,
        int,
    ]


def test_values_of_the_fields_type_are_unchanged() -> None:
    assert read(host="h", port=80, delay=2, eager=True, limit=None, tags=["a", "b"]) == Options(
        "h", 80, 2.0, True, None, ["a", "b"]
    )


def test_mutable_defaults_are_created_for_each_instance() -> None:
    one, other = read(host="h"), read(host="h")
    assert one == other
    assert one.tags is not other.tags


def test_unknown_option_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown option 'prot' of receiver 'net'\. Did you mean 'port'\?"):
        read(host="h", prot=1)


PREFIX = "spark.penstock.receiver.net."


def configured(**options: str) -> Settings:
    return Settings.parse({f"{PREFIX}{name}": value for name, value in options.items()})


def test_unknown_configured_option_is_refused_with_its_key() -> None:
    message = rf"unknown option 'prot' of receiver 'net', set by {PREFIX}prot\. Did you mean 'port'\?"
    with pytest.raises(UnknownNameError, match=message):
        SPEC.read_options({"host": "h"}, configured(prot="1"))


def test_invalid_configured_value_is_refused_with_its_key() -> None:
    with pytest.raises(ConfigurationError, match=rf"^receiver 'net': {PREFIX}port=many is not a whole number$"):
        SPEC.read_options({"host": "h"}, configured(port="many"))


def test_option_given_by_the_program_overrides_the_configured_one() -> None:
    read = SPEC.read_options({"host": "h", "port": 1}, configured(port="many"))
    assert read.port == 1
    with pytest.raises(ConfigurationError, match=r"^receiver 'net': port='few' is not a whole number$"):
        SPEC.read_options({"host": "h", "port": "few"}, configured(port="many"))


def test_missing_option_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"^receiver 'net' needs the option 'host': pass host=…$"):
        read(port=1)
    with pytest.raises(ConfigurationError, match=rf"'host': pass host=… or set {PREFIX}host$"):
        SPEC.read_options({}, configured())


@pytest.mark.parametrize(
    ("name", "value"),
    [("port", "many"), ("port", None), ("delay", "x"), ("eager", "yes"), ("eager", 1), ("limit", "x"), ("tags", 5)],
)
def test_invalid_value_is_refused_with_spec_and_option(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=rf"^receiver 'net': {name}={value!r}( is|:) .+"):
        read(**{"host": "h", name: value})


@pytest.mark.parametrize(("text", "value"), [("true", True), ("FALSE", False), (" true ", True)])
def test_booleans_are_written_true_and_false(text: str, value: bool) -> None:
    assert read(host="h", eager=text).eager is value


def test_secret_option_is_in_no_message() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(host="h", password="s3cret", port="x")
    assert "s3cret" not in str(caught.value)


def test_optional_members_of_a_rate_estimator_have_defaults() -> None:
    class Fixed(RateEstimator):
        def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
            return 5.0

    fixed = Fixed()
    fixed.begin_with(3)
    assert (fixed.initial_rate, fixed.state, fixed.reason) == (None, None, "")


def test_rate_estimator_without_compute_cannot_be_created() -> None:
    class Nothing(RateEstimator):
        pass

    with pytest.raises(TypeError, match="compute"):
        Nothing()  # type: ignore[abstract]  # what is tested
