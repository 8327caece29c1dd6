"""`value` classes behave as frozen data classes do."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import pytest

from groupd.protocol.values import value


@value
class Place:
    name: str
    numbers: tuple[int, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Frozen:
    name: str
    numbers: tuple[int, ...] = ()


def test_equality_hash_and_fields_are_those_of_a_frozen_one() -> None:
    one, other = Place("a", (1, 2)), Frozen("a", (1, 2))
    assert one == Place("a", (1, 2)) != Place("a", (1,))
    assert hash(one) == hash(other)
    assert [entry.name for entry in fields(one)] == [entry.name for entry in fields(other)]
    assert replace(one, numbers=()) == Place("a")
    assert repr(one) == "Place(name='a', numbers=(1, 2))"


def test_there_is_no_place_for_anything_else() -> None:
    with pytest.raises(AttributeError):
        setattr(Place("a"), "others", 1)  # noqa: B010 - the type checker knows better
