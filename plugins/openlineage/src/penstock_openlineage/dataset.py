"""``Dataset``: the name of an input or output in OpenLineage, and its notation in the configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Self

from attrs import frozen

from penstock.spi import TextForm

# A comma separates datasets only where the name of a stream and `=` follow.
_SEPARATOR = re.compile(r",(?=[^,]*=)")
_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://(?P<host>[^/]*)/?)?(?P<name>.+)")


@frozen
class Dataset:
    """An input or output, named as OpenLineage asks: ``kafka://broker:9092`` and ``orders``.

    Attributes:
        namespace: the system with the dataset.
        name: its name there.
    """

    namespace: str
    name: str

    @classmethod
    def of_uri(cls, uri: str) -> Self:
        """The dataset of a URI: scheme and host are the namespace, the path is the name.

        Raises:
            ValueError: the text is no URI with a path, or it contains a password.
        """
        match = _URI.fullmatch(uri.strip())
        if match is None:
            raise ValueError("is not a URI with a path, such as kafka://broker:9092/orders")
        host = match["host"]
        if host and "@" in host:
            raise ValueError("must not contain a user or password")
        return cls(f"{match['scheme']}://{host}" if host else match["scheme"], match["name"])


def _parsed_datasets(text: str) -> dict[str, Dataset]:
    datasets: dict[str, Dataset] = {}
    for item in filter(str.strip, _SEPARATOR.split(text)):
        name, separator, uri = item.partition("=")
        if not separator or not name.strip():
            raise ValueError("must be name=URI, separated by commas")
        datasets[name.strip()] = Dataset.of_uri(uri)
    return datasets


#: Datasets by the name of a stream or output operation.
Datasets = Annotated[Mapping[str, Dataset], TextForm("name=URI, …", _parsed_datasets)]
