"""Finds the assignors that `group.consumer.assignors` names.

A name is looked up among the built-in assignors, then among the installed entry points of the group
`groupd.assignors`; otherwise it must be spelled `module:Class`. A custom class is called without
arguments and must satisfy `PartitionAssignor`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.core.assignors.api import PartitionAssignor
from groupd.coordinator.core.assignors.simple import RangeAssignor, RoundRobinAssignor
from groupd.coordinator.core.assignors.sticky import StickyAssignor
from groupd.coordinator.core.assignors.uniform import UniformAssignor

ENTRY_POINT_GROUP = "groupd.assignors"

BUILT_IN: dict[str, Callable[[], PartitionAssignor]] = {
    "uniform": UniformAssignor,
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
}


def load_assignors(names: Sequence[str]) -> dict[str, PartitionAssignor]:
    """Returns the assignors by the name that members vote for, in the order of `names`; the first
    one is the default. Raises ConfigError with a text of one line if an assignor cannot be found or
    loaded, does not satisfy `PartitionAssignor`, or has the name of another one."""
    loaded: dict[str, PartitionAssignor] = {}
    for name in names:
        assignor = _load(name)
        if assignor.name in loaded:
            raise ConfigError(
                f"group.consumer.assignors: two assignors are called {assignor.name!r}"
            )
        loaded[assignor.name] = assignor
    return loaded


def _load(name: str) -> PartitionAssignor:
    factory = BUILT_IN.get(name)
    if factory is not None:
        return factory()
    try:
        made = _custom_factory(name)()
    except ConfigError:
        raise
    except Exception as error:  # a plug-in may raise anything
        raise ConfigError(
            f"group.consumer.assignors: cannot load {name!r}: {_one_line(error)}"
        ) from error
    return _checked(name, made)


def _custom_factory(name: str) -> Callable[[], Any]:
    found: Any
    module, colon, attribute = name.partition(":")
    if colon:
        found = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    else:
        # Imported only here, because the import is slow and built-in assignors do not need it.
        from importlib.metadata import entry_points

        points = entry_points(group=ENTRY_POINT_GROUP, name=name)
        if not points:
            known = ", ".join(BUILT_IN)
            raise ConfigError(
                f"group.consumer.assignors: unknown assignor {name!r}; built in are {known}; "
                f"others need an entry point in {ENTRY_POINT_GROUP} or the form module:Class"
            )
        found = next(iter(points)).load()
    if not callable(found):
        raise TypeError("not a class")
    factory: Callable[[], Any] = found
    return factory


def _checked(name: str, made: Any) -> PartitionAssignor:
    own_name = getattr(made, "name", None)
    if not isinstance(own_name, str) or not own_name or not callable(getattr(made, "assign", None)):
        raise ConfigError(
            f"group.consumer.assignors: {name!r} is no assignor: it needs a non-empty str `name` "
            "and a method `assign(spec, topics)`"
        )
    assignor: PartitionAssignor = made
    return assignor


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
