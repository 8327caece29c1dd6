"""Finds the assignors that `group.consumer.assignors` and `group.share.assignors` name.

A name is looked up among the built-in assignors, then among the installed entry points of the group
`groupd.assignors`; otherwise it must be spelled `module:Class`. A custom class is called without
arguments and must satisfy `PartitionAssignor`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.core.assignors.api import PartitionAssignor
from groupd.coordinator.core.assignors.share import SimpleAssignor
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

BUILT_IN_FOR_SHARE_GROUPS: dict[str, Callable[[], PartitionAssignor]] = {"simple": SimpleAssignor}

_KEY = "group.consumer.assignors"
_SHARE_KEY = "group.share.assignors"


def load_assignors(names: Sequence[str]) -> dict[str, PartitionAssignor]:
    """Returns the assignors by the name that members vote for, in the order of `names`; the first
    one is the default. Raises ConfigError with a text of one line if an assignor cannot be found or
    loaded, does not satisfy `PartitionAssignor`, or has the name of another one."""
    loaded: dict[str, PartitionAssignor] = {}
    for name in names:
        assignor = _load(name, BUILT_IN, _KEY)
        if assignor.name in loaded:
            raise ConfigError(f"{_KEY}: two assignors are called {assignor.name!r}")
        loaded[assignor.name] = assignor
    return loaded


def load_share_assignor(names: Sequence[str]) -> PartitionAssignor:
    """Returns the one assignor of all share groups. Raises ConfigError as `load_assignors` does."""
    (name,) = names
    return _load(name, BUILT_IN_FOR_SHARE_GROUPS, _SHARE_KEY)


def _load(
    name: str, built_in: Mapping[str, Callable[[], PartitionAssignor]], key: str
) -> PartitionAssignor:
    factory = built_in.get(name)
    if factory is not None:
        return factory()
    try:
        return _checked(name, _custom_factory(name, built_in)())
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from error
    except Exception as error:  # a plug-in may raise anything
        raise ConfigError(f"{key}: cannot load {name!r}: {_one_line(error)}") from error


def _custom_factory(
    name: str, built_in: Mapping[str, Callable[[], PartitionAssignor]]
) -> Callable[[], Any]:
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
            known = ", ".join(built_in)
            raise ConfigError(
                f"unknown assignor {name!r}; built in are {known}; "
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
            f"{name!r} is no assignor: it needs a non-empty str `name` "
            "and a method `assign(spec, topics)`"
        )
    assignor: PartitionAssignor = made
    return assignor


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
