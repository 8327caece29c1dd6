"""The parts of a request that a fault can match: its groups, members, transactional ids and
client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from groupd.coordinator.faults.spec import FaultSpec
from groupd.protocol.messages.groups import FindCoordinatorRequest

KEY_TYPE_GROUP = 0
KEY_TYPE_TRANSACTION = 1


def matches(spec: FaultSpec, api_key: int, client_id: str | None, request: Any) -> bool:
    """Whether the fault is for this request. A request about several groups or members matches if
    one of them does; the fault then applies to the whole request."""
    if spec.api_keys is not None and api_key not in spec.api_keys:
        return False
    for name, pattern in spec.patterns:
        values = (client_id or "",) if name == "client_id" else _FACTS[name](request)
        if not any(pattern.fullmatch(value) for value in values):
            return False
    return True


def groups_of(request: Any) -> Iterator[str]:
    """The group ids that the request names."""
    if isinstance(request, FindCoordinatorRequest):
        if request.key_type == KEY_TYPE_GROUP:
            yield from request.keys
        return
    if isinstance(own := getattr(request, "group_id", None), str):
        yield own
    yield from getattr(request, "group_ids", ())
    for group in getattr(request, "groups", ()):
        yield group if isinstance(group, str) else group.group_id


def members_of(request: Any) -> Iterator[str]:
    """The member ids and group instance ids that the request names."""
    for holder in (request, *getattr(request, "members", ()), *_fetched(request)):
        for name in ("member_id", "group_instance_id", "instance_id"):
            value = getattr(holder, name, None)
            if isinstance(value, str) and value:
                yield value


def _fetched(request: Any) -> Iterator[Any]:
    return (group for group in getattr(request, "groups", ()) if not isinstance(group, str))


def _transactions(request: Any) -> Iterator[str]:
    if isinstance(request, FindCoordinatorRequest):
        if request.key_type == KEY_TYPE_TRANSACTION:
            yield from request.keys
        return
    if isinstance(own := getattr(request, "transactional_id", None), str):
        yield own


_FACTS = {"group": groups_of, "member": members_of, "transactional_id": _transactions}
