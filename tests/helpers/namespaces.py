"""Hosts with addresses of their own on this machine: Linux network namespaces, joined by a bridge in one more of them.

Nothing is changed outside of these namespaces, and no packet leaves them. All are removed at the end.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from attrs import frozen
from tests.helpers.standalone import Host

#: Why no namespaces can be made here; empty if they can, as far as is known without trying.
NOT_HERE = "" if os.geteuid() == 0 and shutil.which("ip") else "network namespaces need root and iproute2's ip"


@frozen
class Network:
    """Hosts that reach each other.

    Attributes:
        prefix: begins the names of the namespaces.
        hosts: by name.
    """

    prefix: str
    hosts: dict[str, Host]

    def cut(self, name: str) -> None:
        """Take the link of a host down."""
        _ip("-n", f"{self.prefix}-bridge", "link", "set", "dev", name, "down")

    def heal(self, name: str) -> None:
        """Take the link of a host up again."""
        _ip("-n", f"{self.prefix}-bridge", "link", "set", "dev", name, "up")

    def pids(self, name: str) -> list[int]:
        """The processes of a host."""
        return [int(pid) for pid in _ip("netns", "pids", f"{self.prefix}-{name}").split()]


@contextmanager
def network(names: Sequence[str]) -> Iterator[Network]:
    """Make a host for each name; at the end kill what still runs there and remove all. Skips the test where it cannot.

    Args:
        names: short, since devices have them.
    """
    prefix = f"penstock-{os.getpid()}"
    bridge, namespaces = f"{prefix}-bridge", [f"{prefix}-{name}" for name in ("bridge", *names)]
    made = Network(prefix, {})
    try:
        for namespace in namespaces:
            _add("netns", "add", namespace)
            _ip("-n", namespace, "link", "set", "dev", "lo", "up")
        _add("-n", bridge, "link", "add", "name", "br0", "type", "bridge")
        _ip("-n", bridge, "link", "set", "dev", "br0", "up")
        for number, name in enumerate(names, 1):
            namespace, address = f"{prefix}-{name}", f"10.93.0.{number}"
            there = ("peer", "name", name, "netns", bridge)
            _add("link", "add", "name", "eth0", "netns", namespace, "type", "veth", *there)
            _ip("-n", bridge, "link", "set", "dev", name, "master", "br0", "up")
            _ip("-n", namespace, "address", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", namespace, "link", "set", "dev", "eth0", "up")
            made.hosts[name] = Host(address, ("ip", "netns", "exec", namespace))
        yield made
    finally:
        for namespace in namespaces:
            _remove(namespace)


def _remove(namespace: str) -> None:
    if not Path("/run/netns", namespace).exists():
        return
    for pid in _ip("netns", "pids", namespace).split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    _ip("netns", "delete", namespace)


def _add(*arguments: str) -> None:
    """Add a namespace or a device, or skip the test where the machine has none."""
    try:
        _ip(*arguments)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces here: {error.stderr.strip()}")


def _ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, timeout=20).stdout
