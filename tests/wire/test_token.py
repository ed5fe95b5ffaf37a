"""The application's token: a secret that is never shown."""

import pickle
import traceback
from urllib.parse import urlsplit

import pytest

from penstock.wire.token import Token

TOKEN = Token("a-secret")


def headers(token: Token) -> dict[str, list[str]]:
    name, value = token.headers()[0]
    return {name.decode(): [value.decode()]}


def test_no_two_applications_share_one() -> None:
    assert len({Token.generate().secret for _ in range(100)}) == 100
    assert len(Token.generate().secret) >= 43


def test_token_is_in_no_repr_and_no_traceback() -> None:
    assert "a-secret" not in repr(TOKEN)
    assert "a-secret" not in str(TOKEN)
    assert "a-secret" not in f"{[TOKEN]}"
    try:
        raise ValueError(TOKEN)
    except ValueError:
        assert "a-secret" not in traceback.format_exc()


def test_token_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(TOKEN)) == TOKEN


def test_token_is_recognized_in_the_headers() -> None:
    assert TOKEN.authenticates(headers(TOKEN))
    assert TOKEN.authenticates({"Authorization": ["Bearer a-secret"], "other": ["x"]})


@pytest.mark.parametrize(
    "shown",
    [
        {},
        {"authorization": []},
        {"authorization": [""]},
        {"authorization": ["a-secret"]},
        {"authorization": ["Bearer "]},
        {"authorization": ["Bearer a-secre"]},
        {"authorization": ["Bearer a-secret "]},
        {"authorization": ["bearer a-secret"]},
        {"authorization": ["Bearer x", "Bearer a-secret"]},
        {"token": ["Bearer a-secret"]},
        {"authorization": ["Bearer ünïcode"]},
    ],
    ids=str,
)
def test_other_headers_do_not_show_the_token(shown: dict[str, list[str]]) -> None:
    assert not TOKEN.authenticates(shown)


def test_tokens_compare_by_secret() -> None:
    assert Token("a") == Token("a")
    assert Token("a") != Token("b")


@pytest.mark.parametrize(("host", "location"), [("10.0.0.1", "grpc://10.0.0.1:5"), ("::1", "grpc://[::1]:5")])
def test_a_location_has_its_host_and_port_apart(host: str, location: str) -> None:
    assert TOKEN.location(host, 5) == TOKEN.location(f"[{host}]" if ":" in host else host, 5) == location
    parts = urlsplit(location)
    assert (parts.hostname, parts.port) == (host, 5)
