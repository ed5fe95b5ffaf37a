"""Runs a program where it can change nothing but its own temporary files.

A mutant of code that deletes files may delete any file: the programs of this folder start in a mount namespace of their
own, in which every file system is read-only, and ``/tmp`` is new and empty but for the clone, if that is below it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

_INSIDE = "PENSTOCK_MUTATION_SANDBOX"
_WRITABLE = ("/tmp", "/var/tmp", "/dev/shm")
_ROOT = Path(__file__).parents[2]
# Read-only are all mounts but those of the kernel; then a new file system covers each folder for temporary files. The
# working directory "." stays the clone when its path is covered; mount must not turn it into that path.
_SCRIPT = """
set -e
mount --make-rprivate /
while read -r _device folder type _rest; do
    case $type in proc|sysfs|devtmpfs|devpts|cgroup|cgroup2|mqueue) ;; *) mount -o remount,bind,ro "$folder" ;; esac
done < /proc/self/mounts
cd "$PENSTOCK_MUTATION_ROOT"
for folder in $PENSTOCK_MUTATION_WRITABLE; do mount -t tmpfs tmpfs "$folder"; done
if [ ! -d "$PENSTOCK_MUTATION_ROOT" ]; then
    mkdir -p "$PENSTOCK_MUTATION_ROOT"
    mount --no-canonicalize --bind . "$PENSTOCK_MUTATION_ROOT"
    cd "$PENSTOCK_MUTATION_ROOT"
fi
exec "$@"
"""


class SandboxError(Exception):
    """This machine allows no mount namespace, so nothing is mutated."""


def is_inside() -> bool:
    """Whether this process runs in the sandbox: the folder of this file cannot be written."""
    return _INSIDE in os.environ and not os.access(Path(__file__).parent, os.W_OK)


def run_inside(command: Sequence[str], *, results: BinaryIO | None = None, root: Path = _ROOT) -> int:
    """Run a command in the sandbox, in the folder ``root``, and return its exit code.

    The command inherits the open file ``results``. ``root`` can be read wherever it is.

    Raises:
        SandboxError: a namespace or a mount is refused.
    """
    namespaces = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--user", "--map-root-user"])
    environment = {
        **os.environ,
        _INSIDE: "1",
        "PENSTOCK_MUTATION_ROOT": str(root),
        "PENSTOCK_MUTATION_WRITABLE": " ".join(folder for folder in _WRITABLE if Path(folder).is_dir()),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    inside = [*namespaces, "sh", "-c", _SCRIPT, "sh"]
    try:
        tried = subprocess.run([*inside, "true"], env=environment, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise SandboxError(f"no read-only mount namespace: {error}") from error
    if tried.returncode:
        raise SandboxError(f"no read-only mount namespace: {tried.stderr.strip()}")
    inherited = [] if results is None else [results.fileno()]
    return subprocess.run([*inside, *command], env=environment, pass_fds=inherited, check=False).returncode
