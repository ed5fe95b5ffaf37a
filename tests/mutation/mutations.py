"""Mutants of a module: changes of its functions, each compiled, none written to disk."""

from __future__ import annotations

import ast
import copy
from collections.abc import Container, Iterator
from pathlib import Path
from types import CodeType
from typing import cast

from attrs import frozen

_COMPARED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.BitOr: ast.BitAnd}


@frozen
class Mutant:
    """A change of one function.

    Attributes:
        module: name of the module.
        function: qualified name of the outermost function that contains the change.
        line: where it is.
        source: the text of that line.
        lines: the lines of the statement that contains the change, without those of the statements below it.
        before: the source of the changed expression or statement.
        after: its replacement.
        code: the compiled function with the change.
    """

    module: str
    function: str
    line: int
    source: str
    lines: range
    before: str
    after: str
    code: CodeType

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.function}: {self.before}  ->  {self.after}"


def mutants_of(module: str, path: Path, functions: Container[str] | None = None) -> Iterator[Mutant]:
    """Yield every mutant of a module's functions and methods; by default of all."""
    text = path.read_text()
    sources = text.splitlines()
    for classes, function in _functions(ast.parse(text).body, ()):
        name = ".".join([*classes, function.name])
        if functions is not None and name not in functions:
            continue
        for statement, node in _mutable(function.body):
            for replacement in _replacements(node):
                code = _compiled(classes, function, node, replacement, str(path))
                if code is not None:
                    line: int = node.lineno  # type: ignore[attr-defined]
                    source, lines = sources[line - 1].strip(), _lines(statement)
                    yield Mutant(module, name, line, source, lines, _shown(node), _shown(replacement), code)


def mutant_of(module: str, path: Path, before: str, after: str) -> Mutant:
    """The mutant with another text in the place of one that the module has once, inside a function.

    Raises:
        LookupError: the module does not have the text, has it more than once, or has it outside of its functions.
    """
    text = path.read_text()
    if text.count(before) != 1:
        raise LookupError(f"{path} has this text {text.count(before)} times: {before}")
    first = text.partition(before)[0].count("\n") + 1
    lines, source = range(first, first + before.count("\n") + 1), text.splitlines()[first - 1].strip()
    for classes, function in _functions(ast.parse(text.replace(before, after)).body, ()):
        if function.body[0].lineno <= first <= (function.end_lineno or 0):
            code, name = _code_of(classes, function, str(path)), ".".join([*classes, function.name])
            assert code is not None
            return Mutant(module, name, first, source, lines, _one_line(before), _one_line(after), code)
    raise LookupError(f"{path} has this text outside of its functions: {before}")


def _functions(body: list[ast.stmt], classes: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], ast.FunctionDef]]:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from _functions(statement.body, (*classes, statement.name))
        elif isinstance(statement, ast.FunctionDef):
            yield classes, statement


def _mutable(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, ast.AST]]:
    """The nodes to change, each with its statement.

    None of them is in annotations, assertions, messages of errors, docstrings, and calls of the log.
    """
    for statement in body:
        yield from _below(statement, statement)


def _below(statement: ast.stmt, node: ast.AST) -> Iterator[tuple[ast.stmt, ast.AST]]:
    if isinstance(node, (ast.Assert, ast.Raise, ast.JoinedStr, ast.ClassDef)) or _is_log_call(node):
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.stmt):
        statement = node
    yield statement, node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "args", "decorator_list", "op", "ops", "ctx") and not (
            name == "args" and isinstance(node, ast.Call)
        ):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _below(statement, child)


def _lines(statement: ast.stmt) -> range:
    """The lines of a statement; of a compound one, those before its body."""
    body: list[ast.stmt] = getattr(statement, "body", [])
    end = statement.end_lineno or statement.lineno
    return range(statement.lineno, max(min([end + 1, *(below.lineno for below in body)]), statement.lineno + 1))


def _is_log_call(node: ast.AST) -> bool:
    call = node.value if isinstance(node, ast.Expr) else node
    target = call.func if isinstance(call, ast.Call) else None
    return isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "log"


def _replacements(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _COMPARED:
            yield _changed(node, ops=[_COMPARED[type(operator)]()])
        case ast.BoolOp():
            yield _changed(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.BinOp() if type(node.op) in _COMPUTED:
            yield _changed(node, op=_COMPUTED[type(node.op)]())
        case ast.AugAssign(op=ast.Add()):
            yield _changed(node, op=ast.Sub())
        case ast.Constant(value=bool()):
            yield _changed(node, value=not node.value)
        case ast.Constant(value=int()):
            yield _changed(node, value=node.value + 1)  # type: ignore[operator]  # an int, as just matched
        case ast.If() | ast.While() | ast.IfExp() if isinstance(node.test, (ast.Name, ast.Attribute, ast.Call)):
            yield _changed(node, test=ast.UnaryOp(ast.Not(), node.test))
        case ast.Return(value=ast.expr()) if not isinstance(node.value, ast.Constant):
            yield _changed(node, value=ast.Constant(None))
        case ast.Expr(value=ast.Call()):
            yield ast.Pass()


def _changed(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


class _Replace(ast.NodeTransformer):
    def __init__(self, node: ast.AST, replacement: ast.AST) -> None:
        self._node = node
        self._replacement = replacement

    def visit(self, node: ast.AST) -> ast.AST:
        return ast.copy_location(self._replacement, node) if node is self._node else self.generic_visit(node)


def _compiled(
    classes: tuple[str, ...], function: ast.FunctionDef, node: ast.AST, replacement: ast.AST, path: str
) -> CodeType | None:
    """Compile the changed function inside its classes, as names with two underscores and ``super`` need them."""
    function, node, replacement = copy.deepcopy((function, node, replacement))
    uses_super = any(isinstance(name, ast.Name) and name.id == "super" for name in ast.walk(function))
    statement = cast("ast.FunctionDef", _Replace(node, replacement).visit(function))
    if uses_super:
        # The code of a loaded function is replaced only by code with the same free variables.
        statement.body.append(ast.If(ast.Constant(False), [ast.Expr(ast.Name("__class__", ast.Load()))], []))
    try:
        return _code_of(classes, statement, path)
    except (SyntaxError, ValueError):
        return None


def _code_of(classes: tuple[str, ...], function: ast.FunctionDef, path: str) -> CodeType | None:
    container: ast.stmt = function
    for name in reversed(classes):
        container = ast.ClassDef(name, [], [], [container], [])
    future = ast.ImportFrom("__future__", [ast.alias("annotations")], 0)
    module = ast.fix_missing_locations(ast.Module([future, container], []))
    return _code(compile(module, path, "exec"), ".".join([*classes, function.name]))


def _code(container: CodeType, qualified_name: str) -> CodeType | None:
    for constant in container.co_consts:
        if isinstance(constant, CodeType):
            code = constant if constant.co_qualname == qualified_name else _code(constant, qualified_name)
            if code is not None:
                return code
    return None


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _shown(node: ast.AST) -> str:
    text = ast.unparse(node).splitlines()[0]
    return text if len(text) <= 100 else f"{text[:97]}..."
