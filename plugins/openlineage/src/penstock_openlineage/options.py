"""The plugin's options, as configuration has them."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from attrs import Attribute, field, frozen, validators

from penstock.spi import PositiveDurationS
from penstock_openlineage.dataset import Datasets


def _is_address(_options: object, _attribute: Attribute[str], url: str) -> None:
    parts = urlsplit(url)
    if url and (parts.scheme not in {"http", "https"} or not parts.hostname):
        raise ValueError("url: must be http://… or https://…")
    if parts.username or parts.password:
        raise ValueError("url: must not contain a user or password: set spark.penstock.openlineage.token")


def _is_one_destination(options: OpenLineageOptions, _attribute: Attribute[Any], file: str) -> None:
    if file and options.url:
        raise ValueError("file: events go to one destination: set url or file")


@frozen(kw_only=True)
class OpenLineageOptions:
    """Options of the events, below ``spark.penstock.openlineage.``."""

    url: str = field(
        default="",
        validator=_is_address,
        metadata={
            "help": "Address of the server, such as `https://lineage.example:5000`. Without a path, events are posted "
            "to `/api/v1/lineage` there. Empty: none are."
        },
    )
    token: str = field(
        default="", repr=False, metadata={"help": "Key of the server's API, sent as `Authorization: Bearer …`."}
    )
    file: str = field(
        default="",
        validator=_is_one_destination,
        metadata={"help": "Path of a file on the driver to which events are appended, as lines of JSON."},
    )
    namespace: str = field(
        default="penstock",
        validator=validators.min_len(1),
        metadata={"help": "Namespace of the job, and of inputs and outputs that `datasets` does not name."},
    )
    datasets: Datasets = field(
        factory=dict,
        metadata={
            "help": "Identities of inputs and outputs: the name of a stream or output operation, `=`, and the URI of "
            "the dataset, such as `orders=kafka://broker:9092/orders`. Separated by commas."
        },
    )
    interval: PositiveDurationS = field(
        default=60.0,
        metadata={"help": "Seconds, or such as `5min`: least time between two events of a running program."},
    )
    timeout: PositiveDurationS = field(
        default=5.0, metadata={"help": "Seconds to wait for the server. A stop waits at most twice as long."}
    )
