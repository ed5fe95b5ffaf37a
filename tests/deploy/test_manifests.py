"""The manifests follow the schemas of their kinds, strictly, and agree with each other and with the table of ports."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
from jsonschema import Draft202012Validator
from tests.deploy import manifests
from tests.deploy.firewall import POLICY, Port, configured_ports, policies, policy_text, ports
from tests.helpers.effective_keys import check_configuration

from penstock_ui.options import UIOptions

SCHEMAS = Path(__file__).with_name("schemas")
RESOURCES = manifests.resources()
CONFIGURATIONS: dict[str, Callable[[], dict[str, str]]] = {
    "client mode": manifests.client_mode,
    "operator": manifests.operator,
    "spark-submit": manifests.submitted,
}
each_resource = pytest.mark.parametrize(
    "resource", [pytest.param(each, id=f"{each['kind']}-{each['metadata'].get('name')}") for each in RESOURCES]
)


def is_custom(resource: Mapping[str, Any]) -> bool:
    return str(resource["apiVersion"]).startswith(manifests.CUSTOM)


def validate(resource: dict[str, Any]) -> None:
    """Raise an error unless a resource follows its schema and has no unknown property."""
    if is_custom(resource):
        version = resource["apiVersion"].rpartition("/")[2]
        schema = json.loads((SCHEMAS / f"{resource['kind']}-{version}.json").read_text(encoding="utf-8"))
        Draft202012Validator(schema).validate(resource)
    else:
        kubernetes_validate.validate(resource, kubernetes_validate.latest_version(), strict=True)


@each_resource
def test_resource_follows_its_schema(resource: dict[str, Any]) -> None:
    validate(resource)


@each_resource
def test_schema_refuses_an_unknown_property_and_a_wrong_type(resource: dict[str, Any]) -> None:
    part = next(key for key in ("spec", "metadata") if key in resource and (key == "spec" or not is_custom(resource)))
    for wrong in ({**resource[part], "replicass": 1}, "text"):
        with pytest.raises((jsonschema.ValidationError, kubernetes_validate.ValidationError)):
            validate({**deepcopy(resource), part: wrong})


def test_network_policies_are_those_of_the_table_of_ports() -> None:
    expected = policy_text(manifests.client_mode())
    assert POLICY.read_text(encoding="utf-8") == expected, "run python -m tests.deploy.write_network_policy"


def test_a_policy_admits_to_each_port_who_connects_to_it_and_nobody_else() -> None:
    table = [
        Port("driver", "a.port", None, ("executors",)),
        Port("driver", "b.port", 4040, ("browsers", "Prometheus")),
        Port("receiver", "c.port", None, ("driver", "executors")),
    ]
    driver, executor = policies(table, {"a.port": 1, "c.port": 100})

    def admitted(policy: dict[str, Any]) -> list[tuple[int, int | None, list[str]]]:
        return [
            (
                rule["ports"][0]["port"],
                rule["ports"][0].get("endPort"),
                [
                    each["podSelector"]["matchLabels"]["spark-role"] if "podSelector" in each else "monitoring"
                    for each in rule["from"]
                ],
            )
            for rule in policy["spec"]["ingress"]
        ]

    assert admitted(driver) == [(1, None, ["executor"]), (4040, None, ["monitoring"])]
    assert admitted(executor) == [(100, 116, ["driver", "executor"])]
    with pytest.raises(ValueError, match=r"a\.port has no fixed number"):
        policies(table, {})


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_every_way_to_start_has_the_ports_of_the_policies(name: str) -> None:
    numbers = configured_ports(CONFIGURATIONS[name]())
    assert policies(ports(), numbers) == policies(ports(), configured_ports(manifests.client_mode()))


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_every_key_of_a_configuration_has_an_effect_and_none_is_secret(name: str) -> None:
    configuration = CONFIGURATIONS[name]()
    check_configuration(configuration, name)
    assert configuration["spark.penstock.profile"] == "production"
    assert configuration["spark.penstock.ui.host"] == "0.0.0.0"
    assert "spark.penstock.ui.token" not in configuration


def pods() -> dict[str, dict[str, Any]]:
    """The container of the driver in each way to start it, with the names of its ports and its variables."""
    application = manifests.resource("SparkApplication")["spec"]["driver"]
    (of_operator,) = application["template"]["spec"]["containers"]
    variables = application["envSecretKeyRefs"].items()
    env = [{"name": name, "valueFrom": {"secretKeyRef": reference}} for name, reference in variables]
    return {
        "client mode": manifests.resource("Deployment")["spec"]["template"]["spec"]["containers"][0],
        "operator": {**of_operator, "ports": application["ports"], "env": env},
        "spark-submit": manifests.resource("Pod")["spec"]["containers"][0],
    }


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_probes_and_prometheus_reach_the_dashboard(name: str) -> None:
    container = pods()[name]
    port = UIOptions().port
    named = {each["name"]: each["containerPort"] for each in container["ports"]}
    (endpoint,) = manifests.resource("PodMonitor")["spec"]["podMetricsEndpoints"]
    (service,) = manifests.resource("Service", "counts-dashboard")["spec"]["ports"]
    assert named[endpoint["port"]] == named[service["targetPort"]] == service["port"] == port
    for probe in ("startupProbe", "livenessProbe"):
        probed = container[probe]["tcpSocket"]["port"]
        assert named.get(probed, probed) == port


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_token_of_the_dashboard_is_the_one_that_prometheus_sends(name: str) -> None:
    (endpoint,) = manifests.resource("PodMonitor")["spec"]["podMetricsEndpoints"]
    (variable,) = [each for each in pods()[name]["env"] if each["name"] == "PENSTOCK_UI_TOKEN"]
    reference = variable["valueFrom"]["secretKeyRef"]
    secret = manifests.resource("Secret")
    assert reference == endpoint["authorization"]["credentials"]
    assert reference["name"] == secret["metadata"]["name"]
    assert reference["key"] in secret["stringData"]


def test_selectors_match_the_pods() -> None:
    labels = manifests.resource("Deployment")["spec"]["template"]["metadata"]["labels"]
    application = manifests.resource("SparkApplication")["spec"]
    # Spark adds the role.
    for own in (application["driver"]["labels"], manifests.resource("Pod")["metadata"]["labels"]):
        assert {**own, "spark-role": "driver"} == labels
    for each in RESOURCES:
        selector = each.get("spec", {}).get("selector", {})
        if selector:
            assert selector.get("matchLabels", selector) == labels
    roles = [each["spec"]["podSelector"]["matchLabels"] for each in RESOURCES if each["kind"] == "NetworkPolicy"]
    assert roles == [labels, {**labels, "spark-role": "executor"}]
