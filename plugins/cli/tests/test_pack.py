"""`penstock pack`: what is in the archive, and what is refused."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from penstock import __version__
from penstock_cli import pack

Cli = Callable[..., Result]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Installs distributions; the ones that are really installed are hidden."""
    installed = tmp_path / "site-packages"
    installed.mkdir()
    monkeypatch.setattr(
        importlib.metadata,
        "distributions",
        lambda **only: importlib.metadata.MetadataPathFinder.find_distributions(
            importlib.metadata.DistributionFinder.Context(path=[str(installed)], **only)
        ),
    )

    def distribution(name: str) -> importlib.metadata.Distribution:
        context = importlib.metadata.DistributionFinder.Context(name=name, path=[str(installed)])
        for distribution in importlib.metadata.MetadataPathFinder.find_distributions(context):
            return distribution
        raise importlib.metadata.PackageNotFoundError(name)

    def entry_points(group: str) -> list[importlib.metadata.EntryPoint]:
        return [
            entry_point
            for one in importlib.metadata.distributions()
            for entry_point in one.entry_points
            if entry_point.group == group
        ]

    monkeypatch.setattr(importlib.metadata, "distribution", distribution)
    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)

    def install(
        name: str, *requires: str, version: str = __version__, plugin: str = "", folder: Path | None = None
    ) -> None:
        module = name.removesuffix("-core").replace("-", "_")
        information = f"{name.replace('-', '_')}-{version}.dist-info"
        (installed / information).mkdir()
        files = {f"{information}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"}
        files[f"{information}/METADATA"] += "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
        files[f"{information}/entry_points.txt"] = f"[penstock]\n{plugin} = {module}\n" if plugin else ""
        if folder is None:
            (installed / module).mkdir()
            files |= {f"{module}/__init__.py": "", f"{module}/data.bin": "x" * 1000, f"{module}/lib.pyx": ""}
        else:
            files[f"_{module}.pth"] = str(folder)
            files[f"{information}/direct_url.json"] = "{}"
        files[f"{information}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{information}/RECORD"])
        files[f"{information}/RECORD"] += f"../bin/{name},,\n"
        for path, text in files.items():
            (installed / path).write_text(text)

    install("penstock-core", "attrs>=1", "pyspark>=4")
    install("attrs", version="25.1.0")
    install("pyspark", version="4.3.0")
    return install


def members(archive: Path) -> set[str]:
    with tarfile.open(archive) as opened:
        return set(opened.getnames())


def packages(archive: Path) -> set[str]:
    return {name.split("/")[0] for name in members(archive) if "/" in name and ".dist-info" not in name}


@pytest.mark.usefixtures("world")
def test_core_is_packed_with_what_it_needs_and_without_pyspark(cli: Cli, tmp_path: Path) -> None:
    archive = tmp_path / "p.tar.gz"
    result = cli("pack", "--output", str(archive))
    assert result.exit_code == 0, result.output
    assert packages(archive) == {"penstock", "attrs"}
    assert f"penstock_core-{__version__}.dist-info/entry_points.txt" in members(archive)
    assert "penstock/data.bin" in members(archive)
    assert not any(name.endswith((".pyx", "bin/penstock-core")) for name in members(archive))
    assert f"{archive}: 2 packages" in result.stdout
    assert f"spark-submit --archives {archive}#penstock --conf spark.executorEnv.PYTHONPATH=./penstock" in result.stdout
    assert pack.is_packed(archive)


def test_all_plugins_are_packed_unless_some_are_named(world: Callable[..., None], cli: Cli, tmp_path: Path) -> None:
    world("penstock-socket", "penstock-core==0.1.0", plugin="socket")
    world("acme-gauge", "attrs", version="7", plugin="gauge")
    archive = tmp_path / "p.tar.gz"
    cli("pack", "--output", str(archive))
    assert packages(archive) == {"penstock", "attrs", "penstock_socket", "acme_gauge"}
    for name in ("gauge", "acme-gauge"):
        cli("pack", "--output", str(archive), name)
        assert packages(archive) == {"penstock", "attrs", "acme_gauge"}


def test_packages_of_the_program_come_with_theirs(world: Callable[..., None], cli: Cli, tmp_path: Path) -> None:
    world("httpx", "certifi", 'colorama; sys_platform == "win32"', version="1.0")
    world("certifi", version="2026.1")
    world("six", version="1.17")
    wanted = tmp_path / "requirements.txt"
    wanted.write_text("# what it needs\nhttpx>=0.9 \\\n    --hash=sha256:00\n\nsix  # the old one\n")
    archive = tmp_path / "p.tar.gz"
    result = cli("pack", "--output", str(archive), "--requirement", str(wanted), "--exclude", "Certifi")
    assert result.exit_code == 0, result.output
    assert packages(archive) == {"penstock", "attrs", "httpx", "six"}


def test_editable_distribution_is_packed_from_its_folder(world: Callable[..., None], cli: Cli, tmp_path: Path) -> None:
    source = tmp_path / "src"
    (source / "penstock_file" / "__pycache__").mkdir(parents=True)
    (source / "penstock_file" / "__init__.py").touch()
    (source / "penstock_file" / "py.typed").touch()
    (source / "penstock_file" / "__pycache__" / "x.pyc").touch()
    (source / "notes").mkdir()
    (source / "penstock_file_alone.py").touch()
    world("penstock-file", plugin="file", folder=source)
    archive = tmp_path / "p.tar.gz"
    cli("pack", "--output", str(archive))
    of_plugin = {name for name in members(archive) if name.startswith(("penstock_file", "_penstock", "notes"))}
    information = f"penstock_file-{__version__}.dist-info"
    assert of_plugin == {
        "penstock_file/__init__.py",
        "penstock_file/py.typed",
        "penstock_file_alone.py",
        f"{information}/METADATA",
        f"{information}/entry_points.txt",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sockte"], "unknown plugin 'sockte'. Did you mean 'socket'?"),
        (["--requirement", "httpx"], "httpx is not installed here: pip install 'httpx'"),
        (["--requirement", "penstock-socket"], "is installed here, but penstock-socket needs penstock-core==99"),
        (["--requirement", "attrs>=90"], "attrs 25.1.0 is installed here, but the program needs attrs>=90"),
        (["--requirement", "no/such/file.txt"], "'no/such/file.txt' is neither a package nor a file"),
    ],
    ids=["plugin", "package", "plugin's core", "version", "file"],
)
def test_what_cannot_be_packed_is_refused_by_name(
    world: Callable[..., None], cli: Cli, tmp_path: Path, arguments: list[str], message: str
) -> None:
    world("penstock-socket", "penstock-core==99", plugin="socket")
    result = cli("pack", "--output", str(tmp_path / "p.tar.gz"), *arguments)
    assert result.exit_code == 1
    assert message in result.stderr
    assert not (tmp_path / "p.tar.gz").exists()


def test_distribution_whose_files_are_unknown_is_refused(world: Callable[..., None], cli: Cli, tmp_path: Path) -> None:
    world("penstock-file", plugin="file", folder=tmp_path / "gone")
    result = cli("pack", "--output", str(tmp_path / "p.tar.gz"))
    assert result.exit_code == 1
    assert "penstock-file is installed editable by _penstock_file.pth, whose line '" in result.stderr
    (record,) = (tmp_path / "site-packages").glob("penstock_file-*/RECORD")
    record.unlink()
    result = cli("pack", "--output", str(tmp_path / "p.tar.gz"))
    assert result.exit_code == 1
    assert f"the files of penstock-file {__version__} are unknown, because it was not installed from a" in result.stderr
    assert not (tmp_path / "p.tar.gz").exists()


@pytest.mark.usefixtures("world")
def test_packages_are_listed_when_verbose(cli: Cli, tmp_path: Path) -> None:
    result = cli("-v", "pack", "--output", str(tmp_path / "p.tar.gz"))
    assert result.stdout.splitlines()[1:3] == ["  attrs 25.1.0", f"  penstock-core {__version__}"]


def test_other_archives_are_not_taken_for_packed_ones(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no archive")
    with tarfile.open(tmp_path / "other.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "text", "text")
    for name in ("text", "other.tar.gz", "absent"):
        assert not pack.is_packed(tmp_path / name)


def test_entry_points_are_found_in_an_unpacked_archive(cli: Cli, tmp_path: Path) -> None:
    archive = tmp_path / "p.tar.gz"
    # What takes long to compress, and plays no part in finding a plugin.
    large = [argument for name in ("pyarrow", "pandas", "numpy") for argument in ("--exclude", name)]
    result = cli("pack", "--output", str(archive), *large, "socket")
    assert result.exit_code == 0, result.output
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path / "unpacked", filter="data")
    finds = "import importlib.metadata as m, pluggy; print(*m.entry_points(group='penstock'), pluggy.__file__)"
    output = subprocess.run(
        [sys.executable, "-S", "-c", finds],
        env={"PYTHONPATH": str(tmp_path / "unpacked")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "EntryPoint(name='socket', value='penstock_socket', group='penstock')" in output
    assert str(tmp_path / "unpacked" / "pluggy") in output
