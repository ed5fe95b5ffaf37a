"""Validates events against OpenLineage's own schemas, those of the facets included."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource

_SCHEMAS = {
    schema["$id"]: schema
    for schema in (
        json.loads(path.read_text(encoding="utf-8")) for path in Path(__file__).parent.glob("schemas/*.json")
    )
}
_REGISTRY: Registry[Any] = Registry().with_resources(
    (address, Resource.from_contents(schema)) for address, schema in _SCHEMAS.items()
)


def check(event: dict[str, Any]) -> None:
    """Raise ``jsonschema.ValidationError`` if an event, or one of its facets, does not follow its schema."""
    _check(event, event["schemaURL"])
    datasets = [
        dataset.get(facets, {})
        for kind, facets in (("inputs", "inputFacets"), ("outputs", "outputFacets"))
        for dataset in event[kind]
    ]
    for facets in (event["run"]["facets"], event["job"]["facets"], *datasets):
        for facet in facets.values():
            _check(facet, facet["_schemaURL"])


def _check(value: Any, address: str) -> None:
    schema = {"$ref": address}
    Draft202012Validator(schema, registry=_REGISTRY, format_checker=FormatChecker()).validate(value)
