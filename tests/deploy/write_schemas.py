"""Writes the schema of a custom resource from its definition: ``python -m tests.deploy.write_schemas CRD MANIFEST…``.

The definitions have a megabyte, nearly all of it pods. Of each object only those properties remain that the manifests
have, with all that constrains them, and the names of the required ones. A property that no manifest had is refused by
the written schema, so that a new one needs it written again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # comes with Bokeh

FOLDER = Path(__file__).with_name("schemas")
# Says something to people, or to kubectl, only.
_DROPPED = {"description", "default"}


def documents(path: Path) -> list[dict[str, Any]]:
    """The documents of a YAML file."""
    return [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each is not None]


def strict(schema: Mapping[str, Any], values: Iterable[Any]) -> dict[str, Any]:
    """A schema for values of the same properties, which refuses all others.

    Args:
        schema: of OpenAPI, as a definition has it.
        values: every value that it is to accept.
    """
    values = list(values)
    result: dict[str, Any] = {
        key: value for key, value in schema.items() if key not in _DROPPED and not key.startswith("x-")
    }
    if schema.get("x-kubernetes-int-or-string"):
        result = {"type": ["integer", "string"]}
    if properties := schema.get("properties"):
        maps = [value for value in values if isinstance(value, Mapping)]
        used = sorted({name for value in maps for name in value if name in properties})
        result["properties"] = {name: strict(properties[name], [v[name] for v in maps if name in v]) for name in used}
        result["additionalProperties"] = False
    elif isinstance(further := schema.get("additionalProperties"), Mapping):
        result["additionalProperties"] = strict(further, [v for value in values for v in value.values()])
    if items := schema.get("items"):
        result["items"] = strict(items, [item for value in values for item in value])
    return result


def main(definition: str, *manifests: str) -> None:
    """Write the schemas of a definition's versions that the manifests have."""
    (crd,) = documents(Path(definition))
    of_kind = [
        each for path in manifests for each in documents(Path(path)) if each["kind"] == crd["spec"]["names"]["kind"]
    ]
    for version in crd["spec"]["versions"]:
        group = f"{crd['spec']['group']}/{version['name']}"
        if values := [each for each in of_kind if each["apiVersion"] == group]:
            schema = strict(version["schema"]["openAPIV3Schema"], values)
            # Kubernetes itself checks these two, and the definition says no more than that they are there.
            schema["properties"]["metadata"] = {"type": "object"}
            text = json.dumps(schema, indent=2) + "\n"
            (FOLDER / f"{crd['spec']['names']['kind']}-{version['name']}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
