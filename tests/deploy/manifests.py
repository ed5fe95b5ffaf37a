"""The manifests in deploy/kubernetes, and the configuration of the program in each."""

from __future__ import annotations

from typing import Any

import yaml  # type: ignore[import-untyped]  # comes with Bokeh
from tests.deploy.firewall import MANIFESTS

#: Where the schema of a custom resource is.
CUSTOM = ("sparkoperator.k8s.io/", "monitoring.coreos.com/")


def resources(name: str = "*") -> list[dict[str, Any]]:
    """The resources in the files of a name."""
    paths = sorted(MANIFESTS.glob(f"{name}.yaml"))
    return [each for path in paths for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each]


def resource(kind: str, name: str | None = None) -> dict[str, Any]:
    """The resource of a kind, and of a name where there are several."""
    (found,) = [each for each in resources() if each["kind"] == kind and name in (None, each["metadata"].get("name"))]
    return found


def client_mode() -> dict[str, str]:
    """The configuration of the driver in a pod of its own."""
    (container,) = resource("Deployment")["spec"]["template"]["spec"]["containers"]
    pairs = (arg.removeprefix("--conf=").partition("=") for arg in container["args"] if arg.startswith("--conf="))
    return {key: value for key, _, value in pairs}


def operator() -> dict[str, str]:
    """The configuration under the Spark operator, with the ports that Spark sets in cluster mode."""
    of_spark = {"spark.driver.port": "7078", "spark.driver.blockManager.port": "7079"}
    return {**of_spark, **resource("SparkApplication")["spec"]["sparkConf"]}


def submitted() -> dict[str, str]:
    """The configuration of the program that spark-submit starts in cluster mode."""
    text = (MANIFESTS / "cluster-mode.conf").read_text(encoding="utf-8")
    lines = (line.split(maxsplit=1) for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return {key: value.strip() for key, value in lines}
