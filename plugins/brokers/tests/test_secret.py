"""``Secret``: a reference that shows where a password is; a literal one is refused and shown nowhere."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from attrs import frozen

from penstock import ConfigurationError
from penstock.spi import Option, structure_options
from penstock_brokers import Secret, SecretError, SecretText, secret_option

LITERAL = "hunter2-hunter2"


@frozen
class Options:
    password: SecretText | None = secret_option("password of the user")


def read(value: object) -> Options:
    return structure_options("receiver 'x'", Options, {"password": value})


@pytest.mark.parametrize("reference", ["file:/run/secret", "env:PASSWORD"])
def test_reference_is_shown_and_is_all_that_is_pickled(reference: str) -> None:
    secret = read(reference).password
    assert str(secret) == reference
    assert repr(secret) == f"Secret({reference!r})"
    assert pickle.loads(pickle.dumps(secret)) == secret == Secret(reference)
    assert read(Secret(reference)) == read(reference)


@pytest.mark.parametrize("value", [LITERAL, f"{LITERAL}:x", f"file{LITERAL}", "env:", "file:", ""])
def test_literal_is_refused_without_being_repeated(value: str) -> None:
    with pytest.raises(ConfigurationError, match=r"password=\(hidden\): must be .*PATH or .*NAME") as refused:
        read(value)
    assert LITERAL not in str(refused.value)
    with pytest.raises(ValueError, match="must be file:PATH or env:NAME") as also_refused:
        Secret(value)
    assert LITERAL not in str(also_refused.value)


def test_option_is_described_without_a_value() -> None:
    (option,) = Option.of(Options)
    assert (option.type, option.help) == ("file:PATH or env:NAME", "password of the user; read on the executor")
    assert "password" not in repr(read("env:X"))


@pytest.mark.parametrize(("content", "secret"), [("s\n", "s"), ("s\r\n", "s"), ("s", "s"), (" s \n\n", " s \n")])
def test_file_is_read_without_its_last_line_end(tmp_path: Path, content: str, secret: str) -> None:
    path = tmp_path / "secret"
    path.write_bytes(content.encode())
    assert Secret(f"file:{path}").read() == secret


def test_each_read_sees_the_present_value(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = Secret("env:PENSTOCK_TEST_SECRET")
    for value in ("first", "renewed"):
        monkeypatch.setenv("PENSTOCK_TEST_SECRET", value)
        assert secret.read() == value


def test_unreadable_secret_is_an_error_that_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_TEST_SECRET", raising=False)
    with pytest.raises(SecretError, match=r"PENSTOCK_TEST_SECRET .* is not set on .*spark\.executorEnv\.PENSTOCK"):
        Secret("env:PENSTOCK_TEST_SECRET").read()
    with pytest.raises(SecretError, match=r"missing with a secret cannot be read on .*: No such file"):
        Secret(f"file:{tmp_path}/missing").read()
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(SecretError, match=r"the secret at file:.*empty is empty"):
        Secret(f"file:{tmp_path}/empty").read()
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(SecretError, match="is not UTF-8"):
        Secret(f"file:{tmp_path}/binary").read()
