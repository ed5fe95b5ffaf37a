"""The table of ports in docs/deployment.md, and the network policies that follow from it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # comes with Bokeh
from attrs import frozen

ROOT = Path(__file__).parents[2]
_PAGE = ROOT / "docs" / "deployment.md"
MANIFESTS = ROOT / "deploy" / "kubernetes"
POLICY = MANIFESTS / "network-policy.yaml"

_KEY = re.compile(r"`(spark\.[\w.]*port)`", re.IGNORECASE)
_HEAD = """\
# Who may connect to the program, by the table of ports in docs/deployment.md: all others may not.
# Written by `python -m tests.deploy.write_network_policy`.
"""
_APP, _NAMESPACE = "counts", "streams"
# Browsers and Prometheus: what runs in this namespace.
_MONITORING = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
_OUTSIDE = {"browsers", "Prometheus"}
# Several receivers of an executor have one port each.
_RETRIES = 16


@frozen
class Port:
    """A row of the table.

    Attributes:
        opener: ``driver``, ``executor`` or ``receiver``, which runs in an executor.
        key: configuration key of its number.
        default: its number without configuration; ``None`` for any.
        connects: who connects to it.
    """

    opener: str
    key: str
    default: int | None
    connects: tuple[str, ...]


def ports() -> list[Port]:
    """The rows of the table that have a key, in their order."""
    page = _PAGE.read_text(encoding="utf-8")
    table = page.partition("\n## Firewall\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("|")]
    found = []
    for opened_by, _purpose, key, default, connects in (row for row in rows if len(row) == 5):
        if match := _KEY.fullmatch(key):
            number = int(default) if default.isdigit() else None
            found.append(Port(opened_by.partition(",")[0], match[1], number, tuple(connects.split(", "))))
    return found


def policies(ports: Iterable[Port], configured: Mapping[str, int]) -> list[dict[str, Any]]:
    """Network policies of driver and executors.

    Args:
        ports: the rows of the table.
        configured: number of a port by its key, where the program sets it.
    """
    return [
        _policy("driver", [port for port in ports if port.opener == "driver"], configured),
        _policy("executor", [port for port in ports if port.opener != "driver"], configured),
    ]


def _policy(role: str, ports: Iterable[Port], configured: Mapping[str, int]) -> dict[str, Any]:
    rules = []
    for port in ports:
        number = configured.get(port.key, port.default)
        if number is None:
            raise ValueError(f"{port.key} has no fixed number: a policy cannot name it")
        opened: dict[str, Any] = {"protocol": "TCP", "port": number}
        if port.opener == "receiver":
            opened["endPort"] = number + _RETRIES
        inside = [_pods(name.removesuffix("s")) for name in port.connects if name not in _OUTSIDE]
        outside = [_MONITORING] if _OUTSIDE.intersection(port.connects) else []
        rules.append({"from": [*inside, *outside], "ports": [opened]})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": f"{_APP}-{role}", "namespace": _NAMESPACE},
        "spec": {**_pods(role), "policyTypes": ["Ingress"], "ingress": rules},
    }


def _pods(role: str) -> dict[str, Any]:
    return {"podSelector": {"matchLabels": {"app": _APP, "spark-role": role}}}


def configured_ports(configuration: Mapping[str, str]) -> dict[str, int]:
    """The numbers of ports that a configuration sets, by key."""
    return {key: int(value) for key, value in configuration.items() if key.lower().endswith("port")}


def policy_text(configuration: Mapping[str, str]) -> str:
    """The file of the policies."""
    # A copy without shared parts, which YAML would write as aliases.
    documents = json.loads(json.dumps(policies(ports(), configured_ports(configuration))))
    return f"{_HEAD}{yaml.safe_dump_all(documents, sort_keys=False)}"
