"""Topic filters and topics: the rules of MQTT, and messages that say which one is broken."""

from __future__ import annotations

import pytest

from penstock_mqtt.topics import check_topic, check_topic_filter


@pytest.mark.parametrize(
    "text", ["a", "/", "a/b", "+", "#", "a/+/c", "+/+", "a/#", "$share/group/a/#", "$SYS/#", "ä/😀", "a b"]
)
def test_valid_filter_is_accepted(text: str) -> None:
    check_topic_filter(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("a/#/b", "as the last level"),
        ("a#", "as the last level"),
        ("a/b+", r"\+ stands for one whole level"),
        ("+a/#", r"\+ stands for one whole level"),
        ("a\0b", "NUL"),
        ("x" * 65_536, "65,535 bytes"),
        ("$share/group", "shared subscription"),
        ("$share//a", "shared subscription"),
        ("$share/g+/a", "shared subscription"),
        ("$share/group/", "is empty"),
    ],
)
def test_invalid_filter_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_topic_filter(text)


@pytest.mark.parametrize("text", ["", "a/+", "#", "a\0"])
def test_topic_to_publish_to_has_no_wildcard(text: str) -> None:
    with pytest.raises(ValueError, match="a topic to publish to"):
        check_topic(text)
    check_topic("a/b c")
