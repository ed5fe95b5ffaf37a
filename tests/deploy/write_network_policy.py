"""Writes the network policies of deploy/kubernetes: ``python -m tests.deploy.write_network_policy``."""

from __future__ import annotations

from tests.deploy.firewall import POLICY, policy_text
from tests.deploy.manifests import client_mode

if __name__ == "__main__":
    POLICY.write_text(policy_text(client_mode()), encoding="utf-8")
