"""The errors: suggestions of names, and pickling."""

import pickle

import pytest

from penstock import errors
from penstock.errors import ConfigurationError, PenstockError, UnknownNameError

ALL = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, PenstockError)]


def test_unknown_name_suggests_the_nearest() -> None:
    error = UnknownNameError("receiver", "soket", ["synthetic", "socket"])
    assert str(error) == "unknown receiver 'soket'. Did you mean 'socket'? Known: socket, synthetic."


def test_unknown_name_without_a_near_one_lists_all() -> None:
    assert str(UnknownNameError("receiver", "zzz", ["socket"])) == "unknown receiver 'zzz'. Known: socket."
    assert str(UnknownNameError("receiver", "zzz", [])) == "unknown receiver 'zzz'. Known: none."


def test_unknown_name_is_a_configuration_error() -> None:
    assert issubclass(UnknownNameError, ConfigurationError)
    assert issubclass(UnknownNameError, LookupError)


@pytest.mark.parametrize("kind", ALL, ids=[kind.__name__ for kind in ALL])
def test_every_error_can_be_pickled(kind: type[PenstockError]) -> None:
    error = UnknownNameError("receiver", "a", ["b"]) if kind is UnknownNameError else kind("what happened")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)


class Unspeakable:
    """A value of the program that cannot be printed."""

    def __repr__(self) -> str:
        """Fail."""
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        ("a" * 98, f"'{'a' * 98}'"),
        ("a" * 99, f"'{'a' * 96}..."),
        (list(range(1000)), f"{str(list(range(1000)))[:97]}..."),
        (Unspeakable(), "an instance of Unspeakable"),
    ],
    ids=["short", "just fits", "one too long", "list", "unspeakable"],
)
def test_shown_is_short_and_never_fails(value: object, text: str) -> None:
    assert errors.shown(value) == text
    assert len(text) <= 100


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("s3://KEY:a%2Fb@bucket/x cannot be read", "s3://KEY:***@bucket/x cannot be read"),
        ("'s3://KEY:a@b' and 'hdfs://u:p@h:80/'", "'s3://KEY:***@b' and 'hdfs://u:***@h:80/'"),
        ("abfs://container@account/x:y@z", "abfs://container@account/x:y@z"),
        ("grpc://127.0.0.1:4050 told me@home", "grpc://127.0.0.1:4050 told me@home"),
    ],
)
def test_messages_have_no_password_of_a_uri(text: str, safe: str) -> None:
    assert str(PenstockError(text)) == safe
    assert str(ConfigurationError(text)) == safe
