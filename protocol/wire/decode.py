"""Decoding through kio: one lazily loaded reader per (API, version)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from kio.serial import entity_reader
from kio.serial.errors import SerialError

from protocol.wire.reader import MalformedRequest

__all__ = ("MalformedRequest", "read_entity")


@cache
def _reader(api: str, class_name: str, version: int) -> Callable[[Any, int], tuple[Any, int]]:
    # Loading a version's module costs some 5 ms, so only versions that clients use are paid for.
    module = import_module(f"kio.schema.{api}.v{version}.request")
    return entity_reader(getattr(module, class_name))


def read_entity(api: str, class_name: str, version: int, frame: bytes, offset: int) -> Any:
    """The kio entity at `offset` of `frame`. Raises MalformedRequest."""
    try:
        entity, _ = _reader(api, class_name, version)(frame, offset)
    # kio answers an unknown tagged field with KeyError.
    except (SerialError, ValueError, OverflowError, IndexError, KeyError, TypeError) as error:
        raise MalformedRequest(f"{api} v{version}: {error}") from error
    return entity
