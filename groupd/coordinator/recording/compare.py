"""Compares two replies as trees: where they differ first, and every place where they differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from groupd.coordinator.recording.plain import BYTES, CLASS

MISSING = "(missing)"


class FieldDifference(Struct, frozen=True):
    """One place where two replies differ. `path`: such as `topics[0].partitions[2].error`; "" = the
    whole reply. `expected`: the recorded value."""

    path: str
    expected: Any
    got: Any


def differences(expected: Any, got: Any, path: str = "") -> Iterator[FieldDifference]:
    """All differences, in the order of the fields."""
    if isinstance(expected, dict) and isinstance(got, dict) and BYTES not in expected:
        if expected.get(CLASS) != got.get(CLASS):
            yield FieldDifference(path, expected, got)
            return
        for key in dict.fromkeys([*expected, *got]):
            inner = f"{path}.{key}" if path else key
            yield from differences(expected.get(key, MISSING), got.get(key, MISSING), inner)
    elif isinstance(expected, list) and isinstance(got, list):
        for index in range(max(len(expected), len(got))):
            left = expected[index] if index < len(expected) else MISSING
            right = got[index] if index < len(got) else MISSING
            yield from differences(left, right, f"{path}[{index}]")
    elif expected != got or isinstance(expected, bool) is not isinstance(got, bool):
        yield FieldDifference(path, expected, got)
