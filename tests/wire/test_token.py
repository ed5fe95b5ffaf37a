"""The application's token: a secret that is never shown."""

import pickle
import traceback
from urllib.parse import urlsplit

import pytest

from penstock.wire.token import Signature, Token

TOKEN = Token("a-secret")


def headers(token: Token, content: bytes = b"call") -> dict[str, list[str]]:
    """The headers of a signed call, as an endpoint gets them."""
    return {name.decode(): [value.decode()] for name, value in token.sign(content).headers()}


def verifies(token: Token, sent: dict[str, list[str]]) -> bool:
    signature = Signature.of(sent)
    return signature is not None and token.verifies(signature)


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


def test_signature_of_the_token_is_recognized() -> None:
    sent = headers(TOKEN)
    assert verifies(TOKEN, sent)
    assert verifies(TOKEN, {"Authorization": sent["authorization"], "other": ["x"]})
    assert "a-secret" not in str(sent)


def test_no_two_signatures_are_equal_and_each_covers_its_content_only() -> None:
    first, second = TOKEN.sign(b"call"), TOKEN.sign(b"call")
    assert first.code != second.code
    assert first.covers(b"call")
    assert not first.covers(b"Call")
    assert not verifies(TOKEN, {"authorization": [f"Penstock :{first.nonce}:{second.digest[::-1]}:{first.code}"]})
    assert TOKEN.answer_code(first) != TOKEN.answer_code(second)
    assert TOKEN.answer_code(first, b"yes") != TOKEN.answer_code(first, b"no")


@pytest.mark.parametrize(
    "value",
    [
        "",
        "a-secret",
        "Bearer a-secret",
        "Penstock",
        "Penstock a-secret",
        "Penstock :::",
        "Penstock ::::",
        "Penstock a:b:c:ü",
    ],
)
@pytest.mark.parametrize("name", ["authorization", "token"])
def test_other_headers_do_not_show_the_token(name: str, value: str) -> None:
    assert not verifies(TOKEN, {name: [value]})
    assert not verifies(TOKEN, {name: []})


def test_signature_of_another_token_is_not_recognized() -> None:
    others = [Token("b"), TOKEN.derive("3/7"), TOKEN.derive(""), TOKEN.derive("3/7").derive("3/7")]
    assert len({other.secret for other in others}) == 4
    assert not any(verifies(TOKEN, headers(other)) for other in others)
    assert verifies(TOKEN.derive("3/7"), headers(TOKEN.derive("3/7")))


def test_tokens_compare_by_secret() -> None:
    assert Token("a") == Token("a")
    assert Token("a") != Token("b")


@pytest.mark.parametrize(("host", "location"), [("10.0.0.1", "grpc://10.0.0.1:5"), ("::1", "grpc://[::1]:5")])
def test_a_location_has_its_host_and_port_apart(host: str, location: str) -> None:
    assert TOKEN.location(host, 5) == TOKEN.location(f"[{host}]" if ":" in host else host, 5) == location
    parts = urlsplit(location)
    assert (parts.hostname, parts.port) == (host, 5)
