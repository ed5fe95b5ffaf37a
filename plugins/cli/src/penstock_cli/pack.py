"""``penstock pack``: one archive with the core, plugins and the program's packages, for executors without them.

Packs what is installed here, so that driver and executors run the same versions. Builds and downloads nothing.
PySpark is left out: Spark gives its own to the Python workers.
"""

from __future__ import annotations

import importlib.metadata
import io
import json
import platform
import re
import sys
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import click
from attrs import frozen
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from penstock import ConfigurationError, __version__
from penstock.spi import GROUP, UnknownNameError, atomic_write
from penstock_cli.installed import completes, plugin_names
from penstock_cli.shared import examples, terminal

#: The folder on executors that Spark unpacks the archive into, unless ``--archives`` names another after a ``#``.
FOLDER = "penstock"
# The first member of each archive, by which `penstock run` recognizes it.
_MARKER = "PENSTOCK-PACK.json"
# Spark has its own on every executor.
_OF_SPARK = {"pyspark", "py4j"}
# Files of the largest packages that a running program does not need.
_UNUSED = re.compile(r"(numpy|pandas|pyarrow)/(.*/)?(tests|include|src)/|.*\.(a|pyx|pxd|pxi|pyc)$|.*/__pycache__/")
_EDITABLE = {"direct_url.json", "RECORD", "INSTALLER", "REQUESTED", "uv_cache.json", "uv_build.json"}
_MB = 1_000_000


@frozen
class Packed:
    """The contents of an archive.

    Attributes:
        versions: distribution → version.
        num_bytes: size of the archive.
    """

    versions: Mapping[str, str]
    num_bytes: int


@click.command(
    epilog=examples(
        ("pack", "everything that is installed here, into penstock.tar.gz"),
        ("pack socket --requirement requests", "the core, one plugin, and a package of your program"),
        ("run --master spark://host:7077 --archives penstock.tar.gz app.py", "run with it"),
    )
)
@click.argument("plugins", metavar="[PLUGIN]...", nargs=-1, shell_complete=completes(plugin_names))
@click.option(
    "--output",
    default="penstock.tar.gz",
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The archive to write.",
)
@click.option(
    "--requirement",
    "requirements",
    multiple=True,
    metavar="PACKAGE|FILE",
    help="A package that the program imports, or a file of requirements; repeatable. Must be installed here.",
)
@click.option("--exclude", multiple=True, metavar="PACKAGE", help="A package that executors have; repeatable.")
@click.pass_obj
def pack(
    verbose: bool, plugins: tuple[str, ...], output: Path, requirements: tuple[str, ...], exclude: tuple[str, ...]
) -> None:
    """Pack what executors need into an archive.

    For a cluster whose hosts do not have Penstock installed: Spark sends the archive to each executor. Packs the
    PLUGINs named, by default all that are installed here, with all that they depend on except PySpark. The executors'
    Python must be of the same version as this one.
    """
    roots = [Requirement("penstock-core"), *_plugin_distributions(plugins), *_requirements(requirements)]
    distributions = _closure(roots, _OF_SPARK | {canonicalize_name(name) for name in exclude})
    packed = write_archive(output, distributions)
    console = terminal()
    size = f"{packed.num_bytes / _MB:.1f} MB"
    console.print(f"{output}: {len(packed.versions)} packages, {size}, for {_python()}", soft_wrap=True)
    if verbose:
        for name, version in packed.versions.items():
            console.print(f"  {name} {version}", soft_wrap=True)
    console.print(f"  penstock run --master URL --archives {output} APP.py", soft_wrap=True)
    environment = f"spark.executorEnv.PYTHONPATH=./{FOLDER}"
    console.print(f"  spark-submit --archives {output}#{FOLDER} --conf {environment} APP.py", soft_wrap=True)


def write_archive(output: Path, distributions: Iterable[importlib.metadata.Distribution]) -> Packed:
    """Write the files of installed distributions into an archive, which appears whole or not at all.

    Raises:
        ConfigurationError: the files of a distribution are unknown.
    """
    versions: dict[str, str] = {}
    with (
        atomic_write(output) as unfinished,
        # More compression takes longer than sending the archive.
        tarfile.open(unfinished, "w:gz", compresslevel=3) as archive,
    ):
        described = {"penstock": __version__, "python": _python()}
        _add(archive, _MARKER, io.BytesIO(json.dumps(described).encode()))
        for distribution in distributions:
            versions[canonicalize_name(distribution.name)] = distribution.version
            for name, path in _files(distribution):
                with path.open("rb") as file:
                    _add(archive, name, file, mode=path.stat().st_mode)
    return Packed(dict(sorted(versions.items())), output.stat().st_size)


def is_packed(archive: Path) -> bool:
    """Whether a file is an archive of ``penstock pack``."""
    try:
        with tarfile.open(archive, "r:*") as opened:
            first = opened.next()
            return first is not None and first.name == _MARKER
    except (OSError, tarfile.TarError):
        return False


def _add(archive: tarfile.TarFile, name: str, file: io.BufferedIOBase, mode: int = 0o644) -> None:
    member = tarfile.TarInfo(name)
    member.size = file.seek(0, io.SEEK_END)
    member.mode = 0o755 if mode & 0o100 else 0o644
    file.seek(0)
    archive.addfile(member, file)


def _python() -> str:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"{platform.python_implementation()} {version} on {platform.system()} {platform.machine()}"


# -- what belongs into it --


def _plugin_distributions(names: tuple[str, ...]) -> Iterator[Requirement]:
    """The distributions of plugins: of those named, or of all.

    Raises:
        UnknownNameError: no installed plugin, or distribution of one, has a name.
    """
    by_name: dict[str, str] = {}
    for entry_point in importlib.metadata.entry_points(group=GROUP):
        if entry_point.dist is not None:
            by_name[entry_point.name] = by_name[entry_point.dist.name] = entry_point.dist.name
    for distribution in importlib.metadata.distributions():
        # Also those that offer nothing to Penstock, such as a source of Structured Streaming.
        if (distribution.name or "").startswith(f"{GROUP}-") and distribution.name != "penstock-spark":
            by_name.setdefault(distribution.name, distribution.name)
    for name in names or sorted(set(by_name.values())):
        if name not in by_name:
            raise UnknownNameError(
                "plugin", name, by_name, advice=f"Install it here first: pip install penstock-{name}"
            )
        yield Requirement(by_name[name])


def _requirements(texts: Iterable[str]) -> Iterator[Requirement]:
    """The requirements given, and those in the files given.

    Raises:
        ConfigurationError: one cannot be parsed, or is a reference to another file.
    """
    for text in texts:
        lines = Path(text).read_text(encoding="utf-8").splitlines() if Path(text).is_file() else [text]
        for line in lines:
            wanted = re.sub(r"(^|\s)#.*|\s--hash=\S+|\\$", "", line).strip()
            if wanted.startswith("--hash="):
                continue
            try:
                if wanted:
                    yield Requirement(wanted)
            except InvalidRequirement as error:
                where = f" in {text}" if text != line else ""
                raise ConfigurationError(
                    f"--requirement {wanted!r}{where} is neither a package nor a file: {str(error).splitlines()[0]}"
                ) from None


def _closure(roots: Iterable[Requirement], exclude: set[str]) -> list[importlib.metadata.Distribution]:
    """The installed distributions that fulfil requirements and theirs, sorted by name.

    Raises:
        ConfigurationError: one is not installed here, or in another version.
    """
    distributions: dict[str, importlib.metadata.Distribution] = {}
    done: set[tuple[str, str]] = set()
    waiting = [(root, "") for root in roots]
    while waiting:
        requirement, needed_by = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in exclude:
            continue
        distribution = distributions[name] = _installed(requirement, needed_by)
        for extra in ("", *requirement.extras):
            if (name, extra) in done:
                continue
            done.add((name, extra))
            needs = map(Requirement, distribution.requires or ())
            waiting += [(need, name) for need in needs if _applies(need, extra)]
    return [distributions[name] for name in sorted(distributions)]


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _installed(requirement: Requirement, needed_by: str) -> importlib.metadata.Distribution:
    needs = f", which {needed_by} needs," if needed_by else ""
    try:
        distribution = importlib.metadata.distribution(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        raise ConfigurationError(
            f"{requirement.name}{needs} is not installed here: pip install '{requirement}'"
        ) from None
    if not requirement.specifier.contains(distribution.version, prereleases=True):
        raise ConfigurationError(
            f"{requirement.name} {distribution.version} is installed here, but {needed_by or 'the program'} needs "
            f"{requirement}: pip install '{requirement}'"
        )
    return distribution


# -- its files --


def _files(distribution: importlib.metadata.Distribution) -> Iterator[tuple[str, Path]]:
    """The files of a distribution: the name in the archive, and the path here.

    Raises:
        ConfigurationError: they are unknown.
    """
    files = distribution.files
    if files is None:
        raise ConfigurationError(
            f"the files of {distribution.name} {distribution.version} are unknown, because it was not installed from a "
            f"wheel: pip install --force-reinstall {distribution.name}, or --exclude it"
        )
    sources = [file for file in files if file.suffix == ".pth"]
    for file in files:
        # Scripts are outside of the packages.
        if file in sources or ".." in file.parts or _UNUSED.match(str(file)):
            continue
        path = Path(str(file.locate()))
        if path.is_file() and not (sources and file.name in _EDITABLE):
            yield str(file), path
    for file in sources:
        yield from _linked(distribution, Path(str(file.locate())))


def _linked(distribution: importlib.metadata.Distribution, pth: Path) -> Iterator[tuple[str, Path]]:
    """The files of a distribution that is installed editable."""
    for line in pth.read_text(encoding="utf-8").splitlines():
        folder = Path(line)
        if not folder.is_dir():
            raise ConfigurationError(
                f"{distribution.name} is installed editable by {pth.name}, whose line {line[:80]!r} names no folder: "
                "install it from a wheel"
            )
        for module in filter(_is_module, sorted(folder.iterdir())):
            for path in sorted(module.rglob("*")) if module.is_dir() else (module,):
                name = path.relative_to(folder).as_posix()
                if path.is_file() and not _UNUSED.match(name):
                    yield name, path


def _is_module(path: Path) -> bool:
    return path.suffix == ".py" or (path / "__init__.py").is_file()
