"""Checks the arguments of the harness's calls against their annotations before the call does
anything.

Without this check a mistake would show up late and in another place: `wait_members("billing", "2")`
would wait until it times out. The error is one line that names the argument.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from os import PathLike
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from groupd.coordinator.faults.errors import HarnessError, WrongType
from groupd.coordinator.suggest import did_you_mean

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""

_PLAIN: Mapping[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    type(None): "None",
}


def check_arguments(
    call: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any]
) -> None:
    """Check that `call(self, *args, **options)` has the arguments that its annotations ask for.
    Raises WrongType, and HarnessError for a value that is not one of the choices."""
    signature, hints = _described(call)
    name = call.__name__
    for given in options:
        if given not in hints and not _takes_any(signature):
            raise WrongType(f"{name}() has no argument {given}{did_you_mean(given, hints)}")
    try:
        bound = signature.bind(None, *args, **options)
    except TypeError as error:
        raise WrongType(f"{name}(): {error}") from None
    for argument, value in bound.arguments.items():
        if argument in hints:
            _check(f"{name}(): {argument}", value, hints[argument])


@lru_cache(maxsize=256)
def _described(call: Callable[..., Any]) -> tuple[inspect.Signature, dict[str, Any]]:
    signature = inspect.signature(call)
    named = {
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }
    hints = get_type_hints(call)
    return signature, {name: hints[name] for name in named if name in hints}


def _takes_any(signature: inspect.Signature) -> bool:
    parameters = signature.parameters.values()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def _check(where: str, value: Any, wanted: Any) -> None:
    origin = get_origin(wanted)
    if origin is Literal:
        _check_choice(where, value, get_args(wanted))
    elif origin in (Union, types.UnionType):
        _check_any(where, value, get_args(wanted))
    elif not _fits(value, wanted):
        raise WrongType(f"{where} must be {_shown(wanted)}, not {_kind(value)}")
    elif origin is not None and issubclass(origin, Mapping):
        _check_entries(where, value, get_args(wanted))


def _check_choice(where: str, value: Any, choices: tuple[Any, ...]) -> None:
    if value not in choices:
        hint = did_you_mean(value, map(str, choices))
        raise HarnessError(f"{where} {value!r}{hint}: must be {' or '.join(map(str, choices))}")


def _check_any(where: str, value: Any, choices: tuple[Any, ...]) -> None:
    fitting = [choice for choice in choices if _fits(value, choice)]
    if not fitting:
        shown = " or ".join(dict.fromkeys(map(_shown, choices)))
        raise WrongType(f"{where} must be {shown}, not {_kind(value)}")
    if len(fitting) == 1:
        _check(where, value, fitting[0])


def _check_entries(where: str, value: Mapping[Any, Any], kinds: tuple[Any, ...]) -> None:
    if kinds:
        for key, entry in value.items():
            _check(f"{where}: key {key!r}", key, kinds[0])
            _check(f"{where}[{key!r}]", entry, kinds[1])


def _fits(value: Any, wanted: Any) -> bool:
    """Whether `value` has the type `wanted`. Does not check the items of a container."""
    origin = get_origin(wanted) or wanted
    if origin is Any or origin is object or origin is Literal:
        return True
    if origin is tuple:
        return isinstance(value, tuple | list)
    if not isinstance(origin, type):
        return True
    if isinstance(value, bool):
        return origin is bool
    if origin is float:
        return isinstance(value, int | float)
    if origin is Iterable:
        return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
    return isinstance(value, origin)


def _shown(wanted: Any) -> str:
    origin = get_origin(wanted) or wanted
    if origin in _PLAIN:
        return _PLAIN[origin]
    if origin is Iterable:
        return "a list"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "a dictionary"
    if origin is PathLike:
        return "a path"
    return str(getattr(origin, "__name__", origin))


def _kind(value: Any) -> str:
    return f"{value!r:.60}" if isinstance(value, int | float) else type(value).__name__
