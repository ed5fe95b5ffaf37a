"""Hosts with addresses of their own on this machine: Linux network namespaces, joined by a bridge in one more of them.

Each may have a firewall, which counts connections.

Nothing is changed outside of these namespaces, and no packet leaves them. All are removed at the end.
"""

from __future__ import annotations

import json
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


_TABLE = "penstock"
#: The name of what a firewall has dropped, in ``Network.connections``.
DROPPED = "dropped"


@frozen
class Admission:
    """Ports of a host to which others may connect.

    Attributes:
        name: names them in ``Network.connections``: letters, digits and ``_``.
        first: the first port.
        last: the last one.
        sources: addresses from which one may connect.
    """

    name: str
    first: int
    last: int
    sources: tuple[str, ...]


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

    def restrict(self, name: str, admissions: Sequence[Admission]) -> None:
        """Drop all that arrives at a host, but for answers and admitted connections. Skips the test without nftables.

        Args:
            name: of the host.
            admissions: what it admits.
        """
        if shutil.which("nft") is None:
            pytest.skip("firewalls need nftables' nft")
        counters = [*(each.name for each in admissions), DROPPED]
        lines = [
            *(f"add counter inet {_TABLE} {counter}" for counter in counters),
            f"add chain inet {_TABLE} input {{ type filter hook input priority 0; policy drop; }}",
            *(
                f"add rule inet {_TABLE} input {rule}"
                for rule in (
                    "iif lo accept",
                    "ct state established,related accept",
                    *(
                        f"ip saddr {{ {', '.join(each.sources)} }} tcp dport {each.first}-{each.last} "
                        f"tcp flags & (syn | ack) == syn counter name {each.name} accept"
                        for each in admissions
                    ),
                    f"tcp flags & (syn | ack) == syn counter name {DROPPED} drop",
                )
            ),
        ]
        self._nft(name, "--file", "-", commands="\n".join([f"add table inet {_TABLE}", *lines]))

    def connections(self, name: str) -> dict[str, int]:
        """The number of connections to a host by the name of their admission, and of attempts that were dropped."""
        listed = json.loads(self._nft(name, "--json", "list", "counters", "table", "inet", _TABLE))["nftables"]
        counters = [each["counter"] for each in listed if "counter" in each]
        return {counter["name"]: counter["packets"] for counter in counters}

    def _nft(self, name: str, *arguments: str, commands: str = "") -> str:
        command = [*self.hosts[name].command, "nft", *arguments]
        done = subprocess.run(command, input=commands, capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

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
