"""The rules of MQTT for topic filters, to which a client subscribes, and for topics, to which it publishes."""

from __future__ import annotations

_MOST_BYTES = 65_535
_SHARE = "$share/"


def check_topic_filter(text: str) -> None:
    """Check a topic filter: levels between slashes, ``+`` for one level, ``#`` at the end for all deeper ones.

    ``$share/GROUP/FILTER`` is a shared subscription, whose messages the broker distributes among the group.

    Raises:
        ValueError: the filter breaks a rule of MQTT; says which.
    """
    topic_filter = text
    if text.startswith(_SHARE):
        group, slash, topic_filter = text.removeprefix(_SHARE).partition("/")
        if not group or not slash or {"+", "#"} & set(group):
            raise ValueError(
                f"topic filter {text!r}: a shared subscription is $share/GROUP/FILTER, and GROUP has no wildcard"
            )
    if not topic_filter:
        raise ValueError(f"topic filter {text!r} is empty: name a topic, such as sensors/+/temperature, or # for all")
    if "\0" in text or len(text.encode(errors="replace")) > _MOST_BYTES:
        raise ValueError("a topic filter has at most 65,535 bytes of UTF-8 and no NUL character")
    *parents, last = topic_filter.split("/")
    if any("#" in level for level in parents) or ("#" in last and last != "#"):
        raise ValueError(f"topic filter {text!r}: # stands for all deeper levels, alone, as the last level")
    if any("+" in level and level != "+" for level in (*parents, last)):
        raise ValueError(f"topic filter {text!r}: + stands for one whole level, as in sensors/+/temperature")


def check_topic(text: str) -> None:
    """Check a topic to publish to: it has no wildcards.

    Raises:
        ValueError: the topic breaks a rule of MQTT; says which.
    """
    if not text or {"+", "#", "\0"} & set(text) or len(text.encode(errors="replace")) > _MOST_BYTES:
        raise ValueError(f"topic {text!r}: a topic to publish to is not empty and has none of + and #")
