"""Whether a function of the program takes the batch time."""

import functools
import operator
from collections.abc import Callable
from typing import Any

import pytest

from penstock.graph.arguments import takes_time


class Program:
    def method(self, rdd: Any) -> None: ...

    def method_with_time(self, time: Any, rdd: Any) -> None: ...

    @staticmethod
    def static(rdd: Any) -> None: ...

    @classmethod
    def of_class(cls, time: Any, rdd: Any) -> None: ...

    def __call__(self, time: Any, rdd: Any) -> None: ...

    def with_default(self, rdd: Any, times: int = 2) -> None: ...

    def with_time_and_default(self, time: Any, rdd: Any, times: int = 2) -> None: ...

    partly = functools.partialmethod(method_with_time, "time")


class OfData:
    def __call__(self, rdd: Any, times: int = 2) -> None: ...


class OneArgument:
    def __init__(self, rdd: Any) -> None: ...


def one(rdd: Any) -> None: ...


def two(time: Any, rdd: Any) -> None: ...


def with_default(rdd: Any, times: int = 2) -> None: ...


def with_two_defaults(rdd: Any = None, times: int = 2) -> None: ...


def two_with_default(time: Any, rdd: Any, times: int = 2) -> None: ...


def with_keyword(rdd: Any, *, times: int = 2) -> None: ...


def any_number(*rdds: Any) -> None: ...


def time_and_any_number(time: Any, rdd: Any, *more: Any) -> None: ...


def keywords(rdd: Any, **options: Any) -> None: ...


def positional_only(time: Any, rdd: Any, /) -> None: ...


@functools.wraps(two)
def wrapped(*args: Any) -> None: ...


WITHOUT_TIME: list[Callable[..., Any]] = [
    one,
    lambda rdd: rdd,
    lambda rdd, bound=5: rdd,
    with_default,
    with_two_defaults,
    with_keyword,
    keywords,
    any_number,
    Program().method,
    Program.static,
    OneArgument,
    functools.partial(two, "time"),
    functools.partial(with_keyword, times=3),
    functools.partial(Program.method, Program()),
    functools.partial(Program(), "time"),
    functools.partial(Program().method_with_time, "time"),
    functools.partial(Program().with_default, times=3),
    functools.partial(OfData()),
    functools.lru_cache(one),
    Program().with_default,
    Program().partly,
    OfData(),
    print,
    len,
    str,
    [].append,
    operator.itemgetter(0),
]
WITH_TIME: list[Callable[..., Any]] = [
    two,
    lambda time, rdd: rdd,
    two_with_default,
    time_and_any_number,
    positional_only,
    wrapped,
    Program().method_with_time,
    Program.of_class,
    Program(),
    Program().with_time_and_default,
    functools.partial(Program()),
    functools.partial(Program().with_time_and_default, times=3),
    functools.lru_cache(two),
    functools.partial(two_with_default, times=3),
    functools.partial(lambda first, time, rdd: rdd, "first"),
    operator.add,
]


@pytest.mark.parametrize("function", WITHOUT_TIME, ids=range(len(WITHOUT_TIME)))
def test_functions_without_time_are_recognized(function: Callable[..., Any]) -> None:
    assert not takes_time(function, 1, "func should take one or two arguments")


@pytest.mark.parametrize("function", WITH_TIME, ids=range(len(WITH_TIME)))
def test_functions_with_time_are_recognized(function: Callable[..., Any]) -> None:
    assert takes_time(function, 1, "func should take one or two arguments")


@pytest.mark.parametrize(
    "function",
    [
        lambda: None,
        lambda a, b, c: None,
        functools.partial(one, "rdd"),
        functools.partial(two, "time", "rdd"),
        functools.partial(two, time="time"),  # what follows a keyword can be given by keyword only
        Program.method_with_time,
    ],
    ids=range(6),
)
def test_other_numbers_of_arguments_raise_assertion_errors_as_in_pyspark(function: Callable[..., Any]) -> None:
    with pytest.raises(AssertionError, match=r"^func should take one or two arguments$"):
        takes_time(function, 1, "func should take one or two arguments")


@pytest.mark.parametrize("nothing", [None, 5, "print", [one]])
def test_value_that_is_not_callable_is_refused(nothing: Any) -> None:
    with pytest.raises(TypeError, match=f"got {type(nothing).__name__}, which cannot be called"):
        takes_time(nothing, 1, "func should take one or two arguments")


def test_functions_of_two_streams_with_and_without_time_are_recognized() -> None:
    assert not takes_time(operator.add, 2, "m")
    assert takes_time(lambda time, one, other: one, 2, "m")
    with pytest.raises(AssertionError, match="m"):
        takes_time(one, 2, "m")
