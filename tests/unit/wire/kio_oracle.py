"""kio as the oracle of the wire tests: its entities as plain data, its bytes, its strategies.

A test describes a message once, for all versions, as a dict with kio's field names. `matches`
compares an entity of one version with it, field by field, and holds every described field that
the version lacks against its default.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from hypothesis import strategies as st

from tests.support.kio_entities import message_class as kio_class
from tests.support.kio_entities import plain, read_response, to_bytes

__all__ = [
    "NEWER_THAN_KIO",
    "assert_matches",
    "kio_class",
    "plain",
    "read_response",
    "request_entities",
    "to_bytes",
]

NEWER_THAN_KIO = {(18, 5), (42, 3)}
"""API keys and versions that `test_newest_versions` has the bytes of."""


@cache
def request_entities(name: str, version: int) -> st.SearchStrategy[Any]:
    return st.from_type(kio_class(name, version, "request"))


def assert_matches(
    actual: Any, described: Any, defaults: Mapping[str, Any], path: str = "message"
) -> None:
    """Compares `actual`, which is of one version, with `described`, which is of all; what `actual`
    lacks has its default."""
    if isinstance(actual, dict):
        assert isinstance(described, dict), path
        for name, value in actual.items():
            assert name in described, f"{path}.{name} is not described"
            assert_matches(value, described[name], defaults, f"{path}.{name}")
        for name in described.keys() - actual.keys():
            if name in defaults:
                assert described[name] == defaults[name], f"{path}.{name} should be absent"
    elif isinstance(actual, list):
        assert len(actual) == len(described), path
        for index, (one, other) in enumerate(zip(actual, described, strict=True)):
            assert_matches(one, other, defaults, f"{path}[{index}]")
    else:
        assert actual == described, path
