"""``penstock plugins new``: writes a plugin that passes every conformance check, for its author to change."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path
from string import Template

import click
from attrs import frozen
from packaging.version import Version

import penstock
from penstock import ConfigurationError
from penstock.spi import GROUP, LoadedPlugin, Plugins
from penstock_cli.shared import examples

_TEMPLATES = Path(__file__).parent / "templates"
_TABLE = "| option | default | meaning |\n|---|---|---|\n"


@frozen
class _Kind:
    """The differences between the kinds, apart from the two Python files.

    Attributes:
        summary: one phrase about the plugin.
        target: attribute that the entry point names; empty for the module itself.
        try_it: a command that shows the plugin at work.
        options: the README's table.
    """

    summary: str
    target: str
    try_it: str
    options: str


_KINDS = {
    "receiver": _Kind(
        "The receiver `$name`",
        "",
        "penstock demo --receiver $name",
        f"{_TABLE}| `server` | `sample` | server to read from; `sample`: lines made here |",
    ),
    "rate-estimator": _Kind(
        "The rate estimator `$name`",
        "",
        "penstock rate simulate --estimator $name --workload step-down",
        f"{_TABLE}| `use` | 0.85 | share of the batch interval that a batch may take |\n"
        "| `min_rate` | 1.0 | lowest rate, records/s |",
    ),
    "listener": _Kind(
        "The listener `$name`",
        "",
        "penstock --verbose demo         # its log events appear among the others",
        f"{_TABLE}| `every` | 10 | batches between two log events |\n\n"
        "Options are set as `spark.penstock.$name.OPTION`.",
    ),
    "block-store": _Kind(
        "The block store plugin `$name`",
        ":${cls}Store",
        "penstock demo                   # its store sees the blocks",
        "It has no options.",
    ),
}


@click.command(
    epilog=examples(
        ("plugins new receiver weather", "a receiver named weather, in the folder penstock-weather"),
        ("plugins new receiver amqp --asyncio", "a receiver of a broker, for a client of asyncio, which acknowledges"),
        ("plugins new rate-estimator half --into ..", "a rate estimator, in a folder beside this one"),
    )
)
@click.argument("kind", type=click.Choice(list(_KINDS)))
@click.argument("name")
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Where to make the folder penstock-NAME; by default here.",
)
@click.option("--asyncio", "is_async", is_flag=True, help="A receiver that reads from a broker with an asyncio client.")
def new(kind: str, name: str, into: Path, is_async: bool) -> None:
    """Write a new plugin to start from.

    Writes a module, a test file, pyproject.toml, README.md, CHANGELOG.md, and GitHub workflows that test the plugin and
    publish it. It works and passes every conformance check as it is: install it, look at it, change it. NAME is what
    programs will call it.
    """
    if is_async and kind != "receiver":
        raise click.UsageError(f"--asyncio is for a receiver, not for a {kind}")
    try:
        folder = write_plugin(kind, name, into, is_async=is_async)
    except FileExistsError as error:
        raise click.ClickException(
            f"{error.filename} exists: choose another name, or another folder with --into"
        ) from None
    except OSError as error:
        raise click.FileError(str(error.filename), error.strerror) from None
    click.echo(f"{folder}/")
    for file in sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file()):
        click.echo(f"  {file}")
    click.echo(
        f"\nNext:\n  cd {folder}\n  pip install --editable . penstock-testing pytest\n  pytest\n"
        f"  {_filled(_KINDS[kind].try_it, name)}"
    )


def write_plugin(kind: str, name: str, into: Path, *, is_async: bool = False) -> Path:
    """Write a plugin into a new folder; return the folder.

    Args:
        kind: kind of the plugin.
        name: name of the receiver, estimator or listener in programs.
        into: parent of the new folder.
        is_async: whether a receiver has an event loop, leases and acknowledgements.

    Raises:
        ConfigurationError: the name is illegal or taken.
        OSError: the folder exists or cannot be written.
    """
    if not Plugins.LEGAL_NAME.fullmatch(name):
        raise ConfigurationError(f"the name {name!r} is not lowercase ASCII (letters, digits, - and _; a letter first)")
    if taken := next(map(LoadedPlugin.of, importlib.metadata.entry_points(group=GROUP, name=name)), None):
        raise ConfigurationError(f"the name {name!r} is taken by {taken.origin}, which is installed: choose another")
    module = f"penstock_{name.replace('-', '_')}"
    template = f"{kind}-asyncio" if is_async else kind
    files = {
        f"{module}.py": f"{template}.py.txt",
        f"test_{module}.py": f"test_{template}.py.txt",
        "pyproject.toml": "pyproject.toml.txt",
        "README.md": "README.md.txt",
        "CHANGELOG.md": "CHANGELOG.md.txt",
        ".github/workflows/ci.yml": "ci.yml.txt",
        ".github/workflows/release.yml": "release.yml.txt",
    }
    chosen = _KINDS[kind]
    further = {
        "summary": _filled(chosen.summary, name),
        "value": module + _filled(chosen.target, name),
        "try_it": _filled(chosen.try_it, name),
        "options": _filled(chosen.options, name),
        "core_range": core_range(penstock.__version__),
    }
    folder = into / f"penstock-{name}"
    folder.mkdir(parents=True)
    for file, source in files.items():
        text = _filled((_TEMPLATES / source).read_text(encoding="utf-8"), name, further)
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def core_range(version: str) -> str:
    """The versions of the core with the plugin contract of ``version``, from it on, as a version specifier."""
    first = Version(version)
    end = f"{first.major + 1}" if first.major else f"0.{first.minor + 1}"
    return f">={first.public},<{end}"


def _filled(template: str, name: str, further: dict[str, str] | None = None) -> str:
    """A template with the plugin's names."""
    names = {
        "name": name,
        "cls": "".join(part.capitalize() for part in re.split("[-_]", name)),
        "module": f"penstock_{name.replace('-', '_')}",
        "distribution": f"penstock-{name}",
    }
    return Template(template).substitute(names | (further or {}))
