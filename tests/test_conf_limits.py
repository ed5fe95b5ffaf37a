"""Configuration values at their edges: what makes no sense is refused, what Spark takes is taken."""

import re

import pytest

from penstock import conf, conf_values
from penstock.conf import Key, Settings
from penstock.errors import ConfigurationError


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (conf.RECEIVER_RESTART_DELAY, "-1"),
        (conf.GRACEFUL_STOP_TIMEOUT, "-5s"),
        (conf.STORE_RETRIES, "-1"),
        (conf.BLOCK_INTERVAL, "9" * 400 + "us"),
    ],
    ids=lambda value: value.name if isinstance(value, Key) else value[:5],
)
def test_what_makes_no_sense_is_refused(key: Key[int], text: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(key.name)):
        Settings({key.name: text})[key]


@pytest.mark.parametrize(("text", "power"), [("1t", 40), ("2TB", 41), ("1p", 50), ("1pb", 50)])
def test_sizes_have_sparks_units(text: str, power: int) -> None:
    assert conf_values.size_bytes(text) == 1 << power
