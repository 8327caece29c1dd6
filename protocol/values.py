"""How classes of data are declared that requests and records make by the hundred thousand."""

from __future__ import annotations

from dataclasses import field
from typing import TypeVar, dataclass_transform

from groupd.protocol.frozen import slotted

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """As `dataclass(frozen=True, slots=True)`, in less than a third of the time for each object:
    that nothing assigns to a field is up to the type checker, and not looked after at run time."""
    return slotted(cls)
