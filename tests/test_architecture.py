"""Rules about the core's source that no import shows; import-linter checks the others ([tool.importlinter])."""

import ast
import inspect
import io
import pkgutil
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import penstock
from penstock import spi

ROOT = Path(__file__).parents[1]
CORE = ROOT / "core/src/penstock"
DOORS_TO_THE_JVM = {"_gateway", "_jrdd", "_jsc", "_jvm"}


def doors(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of every way to the JVM in the source.

    That is an import of Py4J, or a name of PySpark's gateway: a variable, attribute, argument, import or plain string.
    """
    for node in ast.walk(ast.parse(source)):
        imported = [node.module] if isinstance(node, ast.ImportFrom) else []
        if isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
        for module in imported:
            if module is not None and module.split(".")[0] == "py4j":
                yield getattr(node, "lineno", 0), module
        for name in vars(node).values():
            if isinstance(name, str) and name in DOORS_TO_THE_JVM:
                yield getattr(node, "lineno", 0), name


def test_only_the_spark_folder_names_the_doors_to_the_jvm() -> None:
    files = sorted(CORE.rglob("*.py"))
    assert files
    found = [
        f"{file.relative_to(CORE)}:{line} {name}"
        for file in files
        if file.relative_to(CORE).parts[0] != "spark"
        for line, name in doors(file.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "sc._jvm.java.lang.System.nanoTime()",
        "sc._jsc = None",
        "getattr(rdd, '_jrdd')",
        "RDD(_jrdd=None)",
        "def open(_gateway): ...",
        "from pyspark.context import _gateway",
        "import py4j.protocol",
        "from py4j.protocol import Py4JError",
    ],
)
def test_the_search_sees_a_door(source: str) -> None:
    assert len(list(doors(source))) == 1


@pytest.mark.parametrize("source", ["# sc._jvm", "'goes through sc._jvm'", "jvm = _jvms = 1"])
def test_the_search_sees_no_more(source: str) -> None:
    assert list(doors(source)) == []


REPOSITORY = Path(__file__).parents[1]
PUBLIC_MODULES = {"penstock", "penstock.spi", "penstock_testing"}
# Tests of the kit compare it with the engine.
EXEMPT = ("plugins/testing/tests/",)


def imported_core_modules(source: str) -> Iterator[str]:
    """Every core module that the source imports, also where only a type checker follows."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.partition(".")[0] == "penstock")
        elif isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "penstock":
            yield str(node.module)


def test_one_converter_is_the_only_use_of_cattrs() -> None:
    sources = [*CORE.rglob("*.py"), *REPOSITORY.glob("plugins/*/src/**/*.py")]
    assert [file for file in sources if re.search(r"^\s*(?:import|from) cattrs", file.read_text(), re.MULTILINE)] == [
        CORE / "json_converter.py"
    ]


def test_plugins_their_tests_and_examples_import_public_modules_only() -> None:
    files = [
        file
        for file in [*REPOSITORY.glob("plugins/**/*.py"), *REPOSITORY.glob("examples/**/*.py")]
        if not str(file.relative_to(REPOSITORY)).startswith(EXEMPT)
    ]
    assert len(files) > 50
    found = {
        f"{file.relative_to(REPOSITORY)}: {module}"
        for file in files
        for module in imported_core_modules(file.read_text(encoding="utf-8"))
        if module not in PUBLIC_MODULES
    }
    assert found == set()


LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
MOST_WORDS = 8


def log_events(source: str) -> Iterator[tuple[int, ast.expr | None]]:
    """Line and event of every logged event: the first argument of ``log.<level>``, the second of ``self._log``."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr in LEVELS:
            logger = ast.unparse(node.func.value).removesuffix("()").rpartition(".")[2]
            if logger in {"log", "_log", "logger"}:
                yield node.lineno, node.args[0] if node.args else None
        elif node.func.attr == "_log" and ast.unparse(node.func) == "self._log" and len(node.args) == 2:
            yield node.lineno, node.args[1]


def is_event(event: ast.expr | None) -> bool:
    """Whether an event can be searched for: one constant short phrase; its values are in the context."""
    if isinstance(event, ast.IfExp):
        return is_event(event.body) and is_event(event.orelse)
    if not isinstance(event, ast.Constant) or not isinstance(event.value, str):
        return False
    return len(event.value.split()) <= MOST_WORDS and not any(mark in event.value for mark in (". ", "; ", "%", "="))


def test_log_events_are_short_constant_phrases() -> None:
    files = [*CORE.rglob("*.py"), *REPOSITORY.glob("plugins/*/src/**/*.py")]
    events = [
        (f"{file.relative_to(REPOSITORY)}:{line}", event)
        for file in files
        for line, event in log_events(file.read_text(encoding="utf-8"))
    ]
    assert len(events) > 100
    assert [f"{where} {ast.unparse(event) if event else ''}" for where, event in events if not is_event(event)] == []


@pytest.mark.parametrize(
    "source",
    [
        "log.info(f'{what} lost')",
        "log.warning(event, path=path)",
        "self._log.warning('lost block skipped block=%s', block)",
        "log.error('the file was read. It is read again')",
        "self._log('info', 'the receiver was refused as it is not where it was scheduled to')",
    ],
)
def test_the_search_sees_an_event_that_cannot_be_searched_for(source: str) -> None:
    assert [is_event(event) for _, event in log_events(source)] == [False]


def required_arguments(definition: ast.ClassDef) -> int:
    """How many arguments a call of the class must give."""
    for each in definition.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            given = [*each.args.posonlyargs, *each.args.args][1:]
            return len(given) - len(each.args.defaults) + each.args.kw_defaults.count(None)
    if not any(ast.unparse(each).startswith(("define", "frozen")) for each in definition.decorator_list):
        return 0
    fields = [each for each in definition.body if isinstance(each, ast.AnnAssign) and each.value is None]
    return sum(not ast.unparse(field.annotation).startswith("ClassVar") for field in fields)


def test_files_and_constructors_stay_small() -> None:
    sources = {
        path.relative_to(REPOSITORY): path.read_text(encoding="utf-8")
        for path in [*CORE.rglob("*.py"), *REPOSITORY.glob("plugins/*/src/**/*.py")]
    }
    classes = [
        (f"{path}: {each.name}", required_arguments(each))
        for path, source in sources.items()
        for each in ast.parse(source).body
        if isinstance(each, ast.ClassDef)
    ]
    assert len(classes) > 400
    assert [str(path) for path, source in sources.items() if source.count("\n") > 450] == []
    assert [name for name, arguments in classes if arguments > 6] == []


@pytest.mark.parametrize(
    ("source", "arguments"),
    [
        ("class A:\n def __init__(self, a, /, b, *, c, d=1): ...", 3),
        ("@frozen(kw_only=True)\nclass A:\n a: int\n b: ClassVar[int]\n c: int = 1", 1),
        ("class A:\n a: int", 0),
    ],
)
def test_required_arguments_are_counted(source: str, arguments: int) -> None:
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    assert required_arguments(definition) == arguments


# Their import raises an error that names the new module.
MOVED = {"penstock.cli", "penstock.helpers", "penstock.launch", "penstock.testing"}


def core_modules() -> list[ModuleType]:
    names = {info.name for info in pkgutil.walk_packages(penstock.__path__, "penstock.")}
    assert names > MOVED
    return [import_module(name) for name in sorted(names - MOVED)]


def undocumented_methods(cls: type) -> list[str]:
    """Public methods that say nothing: neither overrides, which inherit their documentation, nor properties.

    The class docstring of an internal protocol describes its methods.
    """
    if getattr(cls, "_is_protocol", False) and cls.__name__ not in {*dir(penstock), *dir(spi)}:
        return []
    return [
        f"{cls.__module__}.{cls.__name__}.{name}"
        for name, member in vars(cls).items()
        if not name.startswith("_")
        and inspect.isfunction(inspect.unwrap(getattr(member, "__func__", member)))
        and not member.__doc__
        and not any(name in vars(base) for base in cls.__mro__[1:])
    ]


def test_public_methods_are_documented() -> None:
    classes = {
        cls
        for module in core_modules()
        for cls in vars(module).values()
        if inspect.isclass(cls) and cls.__module__ == module.__name__ and not cls.__name__.startswith("_")
    }
    assert len(classes) > 200
    assert sorted(name for cls in classes for name in undocumented_methods(cls)) == []


def test_undocumented_methods_are_neither_overrides_nor_properties() -> None:
    class Base:
        def documented(self) -> None:
            """Do something."""

        def undocumented(self) -> None: ...

        @classmethod
        def of(cls) -> None: ...

    class Derived(Base):
        def documented(self) -> None: ...

        @property
        def value(self) -> int:
            return 1

    assert [name.rpartition(".")[2] for name in undocumented_methods(Base)] == ["undocumented", "of"]
    assert undocumented_methods(Derived) == []


# Packaging asks for these names.
NAMES_OF_EVERY_PACKAGE = {"__init__.py", "py.typed"}


@pytest.mark.parametrize(
    "tree", [ROOT / "core/src", *sorted(ROOT.glob("plugins/*/src"))], ids=lambda tree: tree.parent.name
)
def test_no_two_files_of_a_tree_share_a_name(tree: Path) -> None:
    files = [file for file in tree.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    names = Counter(file.name for file in files)
    assert files
    assert {name for name, number in names.items() if number > 1} <= NAMES_OF_EVERY_PACKAGE


def attributes_on_one_line(source: str) -> list[int]:
    """Lines of the statements that assign several attributes at once."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assign)
        and sum(isinstance(part, ast.Attribute) for target in node.targets for part in parts(target)) > 1
    ]


def parts(target: ast.expr) -> list[ast.expr]:
    return target.elts if isinstance(target, ast.Tuple) else [target]


def test_a_line_sets_one_attribute() -> None:
    lines = {
        str(file.relative_to(CORE)): attributes_on_one_line(file.read_text("utf-8")) for file in CORE.rglob("*.py")
    }
    assert {file: numbers for file, numbers in lines.items() if numbers} == {}


@pytest.mark.parametrize("source", ["self.a, self.b = 1, 2", "self.a = self.b = 1"])
def test_the_search_sees_several_attributes_on_one_line(source: str) -> None:
    assert attributes_on_one_line(source) == [1]


# Private names of PySpark and Py4J, whose public ones do not reach the JVM.
PRIVATE_OF_SPARK = {*DOORS_TO_THE_JVM, "_conf", "_gateway_client", "_jconf", "_jrdd_deserializer", "_jrdd_val"}
PRIVATE_OF_OTHERS = ("ctypes.", "os.", "pyspark.", "sys.")


def comment_lines(source: str) -> set[int]:
    """Lines with a comment that is more than an instruction to a tool."""
    return {
        token.start[0]
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT and re.sub(r"# (type: ignore|noqa)[^#]*", "", token.string).strip("# ")
    }


def explained_lines(source: str) -> set[int]:
    """Lines with a comment, and those after it up to an empty line."""
    comments = comment_lines(source)
    explained = set[int]()
    for number, line in enumerate(source.splitlines(), 1):
        if number in comments or (line.strip() and number - 1 in explained):
            explained.add(number)
    return explained


def private_uses(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of every use of another object's private attribute that has no reason.

    The reason is a comment at the use, above it in the same paragraph, or at the head of the function.
    """
    tree = ast.parse(source)
    if not any(isinstance(node, ast.Attribute) and is_private_of_ours(node) for node in ast.walk(tree)):
        return
    comments = comment_lines(source)
    explained = explained_lines(source)

    def search(node: ast.AST) -> Iterator[tuple[int, str]]:
        if isinstance(node, ast.FunctionDef):
            first = node.body[1 if ast.get_docstring(node) and len(node.body) > 1 else 0]
            if not comments.isdisjoint(range(node.lineno, first.lineno)):
                return
        if isinstance(node, ast.Attribute) and is_private_of_ours(node) and node.end_lineno not in explained:
            yield node.lineno, ast.unparse(node)
        for child in ast.iter_child_nodes(node):
            yield from search(child)

    yield from search(tree)


def is_private_of_ours(node: ast.Attribute) -> bool:
    if not node.attr.startswith("_") or node.attr.startswith("__") or node.attr in PRIVATE_OF_SPARK:
        return False
    name = ast.unparse(node)
    return not name.startswith(PRIVATE_OF_OTHERS) and name not in {f"self.{node.attr}", f"cls.{node.attr}"}


def test_a_private_attribute_in_a_test_has_a_reason() -> None:
    files = [*REPOSITORY.glob("tests/**/*.py"), *REPOSITORY.glob("plugins/*/tests/**/*.py")]
    assert len(files) > 200
    found = [
        f"{file.relative_to(REPOSITORY)}:{line} {name}"
        for file in files
        for line, name in private_uses(file.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "x._y = 1",
        "self.x._y()",
        "x._y  # type: ignore[attr-defined]",
        "# another paragraph\n\nx._y",
        "def f():\n    z()\n    # below the head\n    z()\n\n    x._y",
        "def f():\n    # another function\n    z()\n\ndef g():\n    x._y",
    ],
)
def test_the_search_sees_a_private_attribute_without_a_reason(source: str) -> None:
    assert [name.removeprefix("self.") for _, name in private_uses(source)] == ["x._y"]


@pytest.mark.parametrize(
    "source",
    [
        "x._y  # holds the race open",
        "x._y  # type: ignore[attr-defined]  # holds the race open",
        "# no public name for a leak\nz = [\n    x._y,\n]",
        "def f():\n    # holds the race open\n    z()\n\n    def g():\n        x._y",
        "def f():\n    '''Do it.'''\n    # holds the race open\n    z()\n\n    x._y",
        "self._y = cls._y = x.__class__",
        "os._exit(1)",
        "sys._current_frames()",
        "ctypes.CDLL(None)._exit(5)",
        "sc._jvm.java",
    ],
)
def test_the_search_accepts_a_reason_and_names_of_others(source: str) -> None:
    assert list(private_uses(source)) == []
