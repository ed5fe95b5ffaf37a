"""Names of secrets, by Spark's rule and the usual names, and lines without them."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigurationError
from penstock.runtime.redaction import Redaction, secret_names


@pytest.mark.parametrize(
    "name",
    [
        "spark.ssl.keyStorePassword",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.azure.account.key.store.dfs.core.windows.net",
        "spark.my.TOKEN",
        "api_key",
        "private-key",
        "passphrase",
    ],
)
def test_usual_names_are_those_of_secrets_whatever_the_rule_of_spark_adds(name: str) -> None:
    assert secret_names({}).search(name)
    assert secret_names({"spark.redaction.regex": "(?i)pin"}).search(name)


@pytest.mark.parametrize(
    ("regex", "name", "is_secret"),
    [
        ("(?i)pin|door", "spark.my.PIN", True),
        ("(?i)pin|door", "spark.my.DOOR", True),
        ("pin", "spark.my.PIN", False),
        ("", "spark.my.pin", False),
    ],
)
def test_redaction_regex_of_spark_adds_names(regex: str, name: str, is_secret: bool) -> None:
    assert bool(secret_names({"spark.redaction.regex": regex}).search(name)) == is_secret


def test_redaction_regex_that_python_cannot_read_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match=r"^spark\.redaction\.regex='\\\\p\{L\}' is not a valid Python"):
        secret_names({"spark.redaction.regex": r"\p{L}"})


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("connecting to amqp://user:hunter22@host/queue", "connecting to amqp://***@host/queue"),
        ("GET https://key@host/ failed", "GET https://***@host/ failed"),
        ("header Authorization: Bearer abc.def-ghi", "header Authorization: Bearer ***"),
        ("Authorization: Basic dXNlcjpwdw==", "Authorization: Basic ***"),
        ("login failed: password=hunter22, user=me", "login failed: password=***, user=me"),
        ("{'api_key': 'with space, and comma', 'port': 1}", "{'api_key': ***, 'port': 1}"),
        ('{"clientSecret": "x y", "port": 1}', '{"clientSecret": ***, "port": 1}'),
        ("?access_token=abc&page=2", "?access_token=***&page=2"),
        ("the value open-sesame was refused", "the value *** was refused"),
        ("a password is needed", "a password is needed"),
        ("http://host:80/a@b", "http://host:80/a@b"),
    ],
)
def test_secrets_are_replaced(line: str, written: str) -> None:
    assert Redaction.of(secret_names({}), ["open-sesame"]).apply(line) == written


def test_values_after_names_that_spark_adds_are_replaced() -> None:
    redaction = Redaction.of(secret_names({"spark.redaction.regex": "(?i)(pin)"}), ())
    assert redaction.apply("PIN=1234 port=1") == "PIN=*** port=1"
