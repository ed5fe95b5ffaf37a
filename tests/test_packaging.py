"""What the distributions promise together: one version, one licence, a place for every plugin, a lock without hosts."""

import importlib
import itertools
import pkgutil
import re
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hatchling.build import build_wheel
from pyspark.sql.datasource import DataSource

ROOT = Path(__file__).parents[1]
PLUGINS = sorted(file.parent.name for file in ROOT.glob("plugins/*/pyproject.toml"))
FOLDERS = [".", "core", *(f"plugins/{plugin}" for plugin in PLUGINS)]
# Found by PySpark, by the names of their modules, not by Penstock.
OF_SPARK = {"structured"}
FURTHER_MODULES = {"plugins/structured": {"pyspark_penstock"}}
# They implement no hook.
WITHOUT_HOOKS = {"brokers", "cli", "tables", "testing"}
# Installed with the plugins that use them.
LIBRARIES = {"brokers"}
LOCKS = sorted(file.name for file in ROOT.glob("requirements/*.txt"))


def settings(folder: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def workspace() -> dict[str, Any]:
    return settings(".")


@pytest.mark.parametrize("folder", FOLDERS)
def test_all_distributions_carry_one_version(folder: str, workspace: dict[str, Any]) -> None:
    assert settings(folder)["project"]["version"] == workspace["project"]["version"]


def packages(folder: str) -> set[str]:
    """The import packages of a distribution: its own name, except for the core's."""
    if folder == ".":
        return set()
    return {settings(folder)["project"]["name"].removesuffix("-core").replace("-", "_")}


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_wheel_holds_the_licence_and_the_sign_that_it_is_typed(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT / folder)
    with zipfile.ZipFile(tmp_path / build_wheel(str(tmp_path))) as wheel:
        (licence,) = (name for name in wheel.namelist() if name.endswith(".dist-info/licenses/LICENSE"))
        assert wheel.read(licence) == (ROOT / "LICENSE").read_bytes()
        modules = {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" not in name}
        assert modules == packages(folder) | FURTHER_MODULES.get(folder, set())
        assert {f"{module}/py.typed" for module in modules} <= set(wheel.namelist())


def test_pyspark_finds_the_source_by_its_module() -> None:
    # What PySpark's lookup does: it imports each module pyspark_* on the path.
    (module,) = (iter_module.name for iter_module in pkgutil.iter_modules() if iter_module.name.startswith("pyspark_"))
    assert module == "pyspark_penstock"
    source = importlib.import_module(module).DefaultSource
    assert issubclass(source, DataSource)
    assert source.name() == "penstock"


@pytest.mark.parametrize("plugin", [plugin for plugin in PLUGINS if plugin not in OF_SPARK | WITHOUT_HOOKS])
def test_a_plugin_is_found_by_its_entry_point(plugin: str) -> None:
    project = settings(f"plugins/{plugin}")["project"]
    ((name, value),) = project["entry-points"]["penstock"].items()
    # The package, or a module of it when tasks import the package and need no hooks.
    assert (name, value.split(".")[0]) == (plugin, f"penstock_{plugin}")
    assert project["entry-points"].keys() <= {"penstock", "penstock.suites", "penstock.commands", "penstock.demos"}


def test_the_whole_brings_a_java_on_request(workspace: dict[str, Any]) -> None:
    version = workspace["project"]["version"]
    assert workspace["project"]["optional-dependencies"]["java"] == [f"penstock-cli[java]=={version}"]


@pytest.mark.parametrize("plugin", PLUGINS)
def test_the_workspace_knows_a_plugin_everywhere_it_must(plugin: str, workspace: dict[str, Any]) -> None:
    version, tool, project = (
        workspace["project"]["version"],
        workspace["tool"],
        settings(f"plugins/{plugin}")["project"],
    )
    assert project["name"] == f"penstock-{plugin}"
    assert f"penstock-core=={version}" in project["dependencies"]
    extras = workspace["project"]["optional-dependencies"]
    whole = {*workspace["project"]["dependencies"], *itertools.chain.from_iterable(extras.values())}
    # An extra may ask for an extra of the plugin.
    assert f"penstock-{plugin}=={version}" in {re.sub(r"\[.*\]", "", one) for one in whole} or plugin in LIBRARIES
    if f"penstock-brokers=={version}" in project["dependencies"]:
        # With a client of its own: an extra of its own, and one with all of them.
        assert f"penstock-{plugin}=={version}" in extras[plugin]
        assert f"penstock-{plugin}=={version}" in extras["brokers"]
    assert tool["uv"]["sources"][f"penstock-{plugin}"] == {"workspace": True}
    assert f"$MYPY_CONFIG_FILE_DIR/plugins/{plugin}/src" in tool["mypy"]["mypy_path"]
    (contract,) = (each for each in tool["importlinter"]["contracts"] if each["id"] == "core-knows-no-plugin")
    assert f"penstock_{plugin}" in contract["forbidden_modules"]


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_versions_and_hashes_and_no_host(lock: str) -> None:
    text = (ROOT / "requirements" / lock).read_text(encoding="utf-8")
    requirements = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert requirements
    assert all(re.match(r"[a-z0-9-]+==[^ ]+ .*\\$", line) for line in requirements)
    assert text.count("\\\n    --hash=sha256:") >= len(requirements)
    assert not re.search(r"://|file:|@|^-|\s/", text, re.MULTILINE)


def test_the_lock_holds_the_spark_that_is_measured() -> None:
    assert re.search(r"^pyspark==4\.3\.0 ", (ROOT / "requirements/dev.txt").read_text(encoding="utf-8"), re.MULTILINE)
