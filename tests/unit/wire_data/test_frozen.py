"""The classes of messages and records are what the standard `dataclass` would have made."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
from types import ModuleType
from typing import Any

import pytest

import groupd.protocol.messages
from groupd.protocol.frozen import dataclass
from groupd.protocol.records import schema


def _classes() -> list[type[Any]]:
    modules: list[ModuleType] = [schema]
    modules += (
        importlib.import_module(found.name)
        for found in pkgutil.iter_modules(
            groupd.protocol.messages.__path__, "groupd.protocol.messages."
        )
    )
    return [
        value
        for module in modules
        for value in vars(module).values()
        if dataclasses.is_dataclass(value)
        and isinstance(value, type)
        and value.__module__ == module.__name__
        and "__delattr__" in vars(value)  # not those of `protocol.values`
    ]


CLASSES = _classes()


def _standard(cls: type[Any]) -> type[Any]:
    """The same fields, by the standard library."""
    namespace: dict[str, Any] = {
        "__annotations__": dict(cls.__annotations__),
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
    }
    for field in dataclasses.fields(cls):
        if field.default is not dataclasses.MISSING:
            namespace[field.name] = field.default
    return dataclasses.dataclass(frozen=True, slots=True)(type(cls.__name__, (), namespace))


def _parameters(cls: type[Any]) -> list[tuple[str, Any]]:
    return [(one.name, one.default) for one in inspect.signature(cls).parameters.values()]


def test_there_are_all_messages() -> None:
    assert len(CLASSES) > 130


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_class_is_as_the_standard_one(cls: type[Any]) -> None:
    standard = _standard(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    assert names == [field.name for field in dataclasses.fields(standard)]
    assert _parameters(cls) == _parameters(standard)
    assert cls.__init__.__annotations__.keys() == standard.__init__.__annotations__.keys()
    assert cls.__match_args__ == standard.__match_args__
    assert cls.__slots__ == standard.__slots__
    assert not hasattr(cls(*names), "__dict__")

    one, other = cls(*names), standard(*names)
    assert repr(one) == repr(other)
    assert [getattr(one, name) for name in names] == names
    assert one == cls(**dict(zip(names, names, strict=True)))
    assert hash(one) == hash(cls(*names))
    assert one != other
    assert one != names
    for number, name in enumerate(names):
        changed = dataclasses.replace(one, **{name: number})
        assert changed != one
        assert getattr(changed, name) == number
        with pytest.raises(dataclasses.FrozenInstanceError, match=name):
            setattr(one, name, 0)
        with pytest.raises(dataclasses.FrozenInstanceError, match=name):
            delattr(one, name)
    with pytest.raises(TypeError):
        cls(*names, "one too many")
    assert dataclasses.asdict(one) == dataclasses.asdict(other)
    assert copy.copy(one) == one == copy.deepcopy(one)
    assert pickle.loads(pickle.dumps(one)) == one


def test_a_class_without_a_text_says_its_fields() -> None:
    @dataclass(frozen=True, slots=True)
    class Place:
        topic: str
        partition: int = 0

    assert Place.__doc__ == "Place(topic: str, partition: int)"


def test_fields_may_be_made_anew_for_each_object() -> None:
    @dataclass(frozen=True, slots=True)
    class Place:
        topic: str
        partitions: list[int] = dataclasses.field(default_factory=list)

    one, other = Place("t"), Place("t", [1])
    assert one.partitions == []
    assert one.partitions is not Place("t").partitions
    assert other == Place("t", [1]) != one
    assert dataclasses.replace(other, topic="u") == Place("u", [1])
    assert repr(inspect.signature(Place).parameters["partitions"].default) == "<factory>"


def test_one_that_is_not_frozen_changes_and_has_no_hash() -> None:
    @dataclass(slots=True)
    class Count:
        name: str
        number: int = 0

    one = Count("a")
    one.number = 1
    assert one == Count("a", 1) != Count("a")
    assert repr(one).endswith("Count(name='a', number=1)")
    assert copy.copy(one) == one
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    with pytest.raises(AttributeError):
        one.other = 1  # type: ignore[attr-defined]
