"""Describes a recorded request in words."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.header import parse_request_header
from groupd.protocol.wire.registry import MalformedRequest

OWN = -1
"""The connection number of requests that the harness made itself."""


class RequestFacts(Struct, frozen=True):
    """The facts of a request. `number`: that of its input; `at_ms`: time since the recording began;
    `wall_ms`: time since 1970; `groups`, `member`: the groups and the member that it names."""

    number: int
    at_ms: int
    wall_ms: int
    connection: int
    client_id: str
    api: str
    version: int
    groups: tuple[str, ...] = ()
    member: str = ""

    def shown(self) -> str:
        where = "harness" if self.connection == OWN else f"connection {self.connection}"
        about = "".join(f" group={group}" for group in self.groups[:3])
        about += f" member={self.member}" if self.member else ""
        return (
            f"request {self.number} at +{self.at_ms / 1000:.3f} s: {self.api} v{self.version} "
            f"from {self.client_id or '(no client id)'} ({where}){about}"
        )


def facts_of(number: int, at_ms: int, wall_ms: int, connection: int, frame: bytes) -> RequestFacts:
    """The facts of a request's frame. Never fails: a request that cannot be decoded is named
    malformed."""
    try:
        header = parse_request_header(frame, API_BY_KEY)
    except MalformedRequest:
        return RequestFacts(number, at_ms, wall_ms, connection, "", "(malformed)", -1)
    api = API_BY_KEY.get(header.api_key)
    name = f"API {header.api_key}" if api is None else api.name
    groups: tuple[str, ...] = ()
    member = ""
    if api is not None and api.min_version <= header.api_version <= api.max_version:
        try:
            request = api.decode(frame, header.body_offset, header.api_version)
        except MalformedRequest:
            name += " (malformed)"
        else:
            groups, member = about(request)
    client_id = header.client_id or ""
    return RequestFacts(
        number, at_ms, wall_ms, connection, client_id, name, header.api_version, groups, member
    )


_WITH_SECRETS = frozenset(api.key for api in API_BY_KEY.values() if api.hide is not None)
_NAMELESS_HEADER = 8
"""Bytes of API key, version and correlation id; no header ends there."""


def without_secrets(frame: bytes) -> bytes:
    """The frame as it may be recorded. It is answered as the true one: nothing that a reply tells
    depends on what a secret is, only on its length."""
    if int.from_bytes(frame[:2], "big") not in _WITH_SECRETS:
        return frame
    try:
        header = parse_request_header(frame, API_BY_KEY)
    except MalformedRequest:
        return frame[:_NAMELESS_HEADER]
    hide = API_BY_KEY[header.api_key].hide
    assert hide is not None
    return hide(frame, header.body_offset, header.api_version)


def about(request: Any) -> tuple[tuple[str, ...], str]:
    """The groups and the member that a request names."""
    found = [getattr(request, "group_id", None), *(getattr(request, "group_ids", None) or ())]
    found += (
        group if isinstance(group, str) else getattr(group, "group_id", None)
        for group in getattr(request, "groups", None) or ()
    )
    if type(request).__name__ == "FindCoordinatorRequest" and request.key_type == 0:
        found += request.keys
    groups = tuple(group for group in found if isinstance(group, str) and group)
    return groups, str(getattr(request, "member_id", "") or "")


def value_shown(path: str, value: Any) -> str:
    """A field's value as text, an error with its name."""
    last = path.rpartition(".")[2]
    if last == "error" and isinstance(value, int) and not isinstance(value, bool):
        try:
            return f"{value} ({ErrorCode(value).name})"
        except ValueError:
            return str(value)
    text = repr(value)
    return text if len(text) <= 300 else text[:300] + "..."
