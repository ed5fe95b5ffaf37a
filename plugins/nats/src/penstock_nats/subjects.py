"""Subjects of NATS: words with dots between. A pattern has ``*`` for one word, and at its end ``>`` for all further."""

from __future__ import annotations


def is_subject(subject: str) -> bool:
    """Whether a message can be published there."""
    return is_subject_filter(subject) and not {"*", ">"} & set(subject.split("."))


def is_subject_filter(subject: str) -> bool:
    """Whether this is a subject, or a pattern of subjects."""
    words = subject.split(".")
    is_printable = subject.isprintable() and " " not in subject
    return is_printable and all(words) and ">" not in words[:-1]


def matches(pattern: str, subject: str) -> bool:
    """Whether a pattern has a subject among those that it stands for."""
    wanted, words = pattern.split("."), subject.split(".")
    for number, each in enumerate(wanted):
        if each == ">":
            return number < len(words)
        if number >= len(words) or each not in {"*", words[number]}:
            return False
    return len(wanted) == len(words)
