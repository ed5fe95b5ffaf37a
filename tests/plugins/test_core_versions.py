"""A plugin that was built for another version of the core is refused by name and version."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.badplugins.zoo import Zoo

from penstock import __version__
from penstock.errors import PluginError, UnknownNameError
from penstock.plugins.discovery import Plugins

RECEIVERS = """
@hookimpl
def receivers():
    return [penstock.ReceiverSpec("other", dict)]
"""


def require(folder: Path, *requirements: str) -> None:
    (metadata,) = folder.glob("*.dist-info/METADATA")
    with metadata.open("a") as file:
        file.writelines(f"Requires-Dist: {requirement}\n" for requirement in requirements)


@pytest.mark.parametrize(
    "requirement",
    ["penstock-core==0.2.0", "penstock-core (==0.2.0)", "Penstock_Core[fast] ==0.2.0 ; python_version > '3'"],
)
def test_plugin_for_another_version_is_refused_by_name_and_version(zoo: Zoo, tmp_path: Path, requirement: str) -> None:
    module = zoo.add("one", RECEIVERS + "raise SystemExit('imported')")
    require(tmp_path, "attrs>=23", requirement)
    fault = zoo.record(zoo.load(), "one").fault
    assert fault == (
        f"dist-zoo_0 1.0 needs penstock-core 0.2.0, and {__version__} is installed: install both in one version, "
        "pip install penstock-core==0.2.0 or pip install --upgrade dist-zoo_0"
    )
    assert module
    with pytest.raises(PluginError, match=r"one \(dist-zoo_0 1\.0\).*penstock-core 0\.2\.0"):
        Plugins(entry_points=zoo.entry_points, strict=True)
    with pytest.raises(UnknownNameError, match=r"the plugin one \(dist-zoo_0 1\.0\) .* needs penstock-core 0\.2\.0"):
        zoo.load().spec("receivers", "one")


@pytest.mark.parametrize(
    "requirement",
    [
        f"penstock-core=={__version__}",
        "penstock-core>=0.0.1",
        "penstock-core==0.*",
        "penstock-core-extras==0.2.0",
        "acme==0.2.0",
        "penstock-core[fast]==0.2.0 ; extra == 'later'",
    ],
)
def test_other_requirements_are_for_the_installer(zoo: Zoo, tmp_path: Path, requirement: str) -> None:
    zoo.add("one", RECEIVERS)
    require(tmp_path, requirement)
    assert zoo.record(zoo.load(), "one").fault == ""
