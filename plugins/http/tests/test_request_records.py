"""Records of a body, signatures, tokens, and the columns of records."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from penstock_http import WebhookOptions
from penstock_http.refusals import Refused, check_token, expected_wait_s, records_of, retry_after_s
from penstock_http.request_columns import RequestDetails, shown_headers, table_of
from penstock_http.request_records import split_body
from penstock_http.signatures import code_of, is_signed

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("split", "content_type", "body", "records"),
    [
        ("body", "application/json", b"[1, 2]\n", [b"[1, 2]\n"]),
        ("body", "", b"", [b""]),
        ("lines", "", b"a\r\n\nb c\nlast", [b"a", b"b c", b"last"]),
        ("lines", "", b"\n\r\n", []),
        ("array", "", b'[1.50, {"a": [1, 2]}, "]"]', [b"1.50", b'{"a": [1, 2]}', b'"]"']),
        ("array", "", b" [ ] ", []),
        ("auto", "application/x-ndjson", b"1\n2", [b"1", b"2"]),
        ("auto", "application/json", b" [1,2]", [b"1", b"2"]),
        ("auto", "application/json", b'{"a": 1}', [b'{"a": 1}']),
        ("auto", "text/plain", b"[1,2]", [b"[1,2]"]),
    ],
)
def test_body_is_split(split: str, content_type: str, body: bytes, records: list[bytes]) -> None:
    assert split_body(body, split, content_type) == records  # type: ignore[arg-type]  # a parameter


@pytest.mark.parametrize("body", [b"", b"{}", b"[1", b"[1 2]", b"[1,]", b"[,]", b"[1] 2", b"[1]]", b"[\xff]", b"[nul]"])
def test_body_that_is_no_json_array_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # of several kinds
        split_body(body, "array", "")


@given(st.lists(JSON_VALUES), st.sampled_from([None, 1]))
def test_elements_are_slices_of_the_array(values: list[object], indent: int | None) -> None:
    text = json.dumps(values, indent=indent)
    elements = split_body(text.encode(), "array", "")
    assert [json.loads(element) for element in elements] == values
    position = 0
    for element in elements:
        position = text.encode().index(element, position) + len(element)


# As in the documentation of the senders.
GITHUB = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"


def test_github_signature() -> None:
    body, key = b"Hello, World!", b"It's a Secret to Everybody"
    assert is_signed("github", key, GITHUB, body, 0)
    for wrong in ("", GITHUB[:-1], GITHUB.removeprefix("sha256="), "sha1=" + GITHUB[7:], "\udcff"):
        assert not is_signed("github", key, wrong, body, 0)
    assert not is_signed("github", b"other", GITHUB, body, 0)
    assert not is_signed("github", key, GITHUB, body + b"!", 0)


@pytest.mark.parametrize(
    ("now_s", "change", "is_right"),
    [
        (1000, "", True),
        (1300, "", True),
        (1301, "", False),
        (699, "", False),
        (1000, "t=1000,", False),
        (1000, "v0=x,v1=wrong,", True),
    ],
)
def test_stripe_signature_has_a_time(now_s: float, change: str, is_right: bool) -> None:
    code = code_of(b"key", b"1000.body")
    assert is_signed("stripe", b"key", f"{change}t=1000,v1={code}", b"body", now_s) is is_right


@pytest.mark.parametrize(
    "signature", ["", "t=1000", "v1=x", "t=,v1=x", "t=\u0661,v1=x", f"t={'9' * 5000},v1=x", "t=1e3,v1=x"]
)
def test_stripe_signature_from_a_stranger_is_refused(signature: str) -> None:
    assert not is_signed("stripe", b"key", signature, b"body", 1000)


@pytest.mark.parametrize(
    ("name", "value", "is_right"),
    [
        ("Authorization", "Bearer right", True),
        ("Authorization", "bearer right", True),
        ("Authorization", "Basic right", False),
        ("Authorization", "right", False),
        ("X-Token", "right", True),
        ("X-Token", "wrong", False),
        ("X-Token", "\udcff", False),
        ("X-Token", "", False),
    ],
)
def test_token(name: str, value: str, is_right: bool) -> None:
    if is_right:
        check_token({name: value}, name, b"right")
    else:
        with pytest.raises(Refused, match=f"the header {name} has no valid token") as caught:
            check_token({name: value}, name, b"right")
        assert caught.value.response().headers["WWW-Authenticate"] == "Bearer"


def test_record_that_cannot_be_decoded_is_refused() -> None:
    options = WebhookOptions(port=1, records="lines", value_as="json")
    assert records_of(b'{"a": 1}\n2', "", options) == [b'{"a": 1}', b"2"]
    for body in (b"1\n{", b"\xff", b"[" * 100_000):
        with pytest.raises(Refused, match="the body cannot be read") as caught:
            records_of(body, "", options)
        assert caught.value.response().status == 400
    with pytest.raises(Refused, match="nested too deeply"):
        records_of(b"[" * 100_000, "", WebhookOptions(port=1, records="array"))


@pytest.mark.parametrize(("wait_s", "seconds"), [(0, 1), (0.2, 1), (1.0, 1), (1.1, 2), (90, 90)])
def test_time_to_retry_is_in_whole_seconds(wait_s: float, seconds: int) -> None:
    assert retry_after_s(wait_s) == seconds


def test_expected_wait_is_that_of_the_records_before() -> None:
    assert expected_wait_s(100, 20.0) == 5
    assert expected_wait_s(100, None) == 0


def test_columns_of_requests() -> None:
    headers = shown_headers({"Authorization": "Bearer x", "X-Token": "y", "Host": "h", "X-Odd": "\udcff"}, "X-Token")
    assert headers == [("host", "h"), ("x-odd", "\ufffd")]
    details = RequestDetails("POST", "/a", "b=1", headers, "127.0.0.1", 1_000_000)
    other = RequestDetails("PUT", "/c", "", [], "::1", 2_000_000)
    columns = ("value", "method", "path", "query", "headers", "remote", "timestamp")
    rows = table_of([(details, [b"1", b"2"]), (other, [b"3"])], columns, "text").to_pylist()
    assert [row["value"] for row in rows] == ["1", "2", "3"]
    assert [row["method"] for row in rows] == ["POST", "POST", "PUT"]
    assert rows[1] == {
        "value": "2",
        "method": "POST",
        "path": "/a",
        "query": "b=1",
        "headers": headers,
        "remote": "127.0.0.1",
        "timestamp": datetime.fromtimestamp(1, UTC),
    }
