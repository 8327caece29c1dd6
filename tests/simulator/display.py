"""Messages as they stand in a trace: only what differs from the default, long ids cut short."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

from msgspec import NODEFAULT, Struct

from tests.simulator.plan import assigned_partitions

MAX_CHARACTERS = 500
_UUID = re.compile(r"([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def show(fact: Any) -> str:
    text = _UUID.sub(r"\1", fact if isinstance(fact, str) else _show(fact))
    return text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + "..."


def _show(value: Any) -> str:
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bytes):
        return _bytes(value)
    if isinstance(value, tuple | list):
        return f"[{' '.join(map(_show, value))}]"
    if isinstance(value, Struct):
        names = value.__struct_fields__
        defaults = value.__struct_defaults__
        unset = [NODEFAULT] * (len(names) - len(defaults))
        parts = [
            f"{name}={_show(getattr(value, name))}"
            for name, default in zip(names, (*unset, *defaults), strict=True)
            if getattr(value, name) != default
        ]
        return f"{type(value).__name__}({', '.join(parts)})"
    return repr(value)


def _bytes(value: bytes) -> str:
    if len(value) == 16:
        return f"{value[0]:02x}..{value[-1]:02x}"
    try:
        places, plan = assigned_partitions(value)
    except ValueError:
        return f"{len(value)} bytes"
    dealt: dict[str, list[int]] = {}
    for topic, number in sorted(places):
        dealt.setdefault(topic, []).append(number)
    return f"{plan}{dealt}"
