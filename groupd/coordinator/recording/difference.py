"""The differences between a recording and its replay: where two replies differ, as text and as
JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from groupd.coordinator.recording.plain import BYTES, CLASS
from groupd.coordinator.runtime.timeline import timeline_text
from groupd.protocol.errors import ErrorCode
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.header import parse_request_header
from groupd.protocol.wire.registry import MalformedRequest

MISSING = "(missing)"


class FieldDifference(Struct, frozen=True):
    """One place where two replies differ. `path`: such as `topics[0].partitions[2].error`, or ""
    for the whole reply. `expected`: the recorded value."""

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


NO_CONNECTION = -1
"""The connection number of requests that the harness made itself."""


class RequestFacts(Struct, frozen=True):
    """The facts of a request. `number`: the number of its input; `at_ms`: time since the recording
    began; `wall_ms`: time since 1970; `groups`, `member`: the groups and the member that it
    names."""

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
        where = "harness" if self.connection == NO_CONNECTION else f"connection {self.connection}"
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
"""Bytes of API key, version and correlation id. No header ends there, so a frame that is cut there
stays malformed."""


def without_secrets(frame: bytes) -> bytes:
    """The frame without its secrets, as it may be recorded. Replies depend only on the length of a
    secret, so this frame is answered like the true one."""
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
    """A field's value as text; for an error, its name."""
    last = path.rpartition(".")[2]
    if last == "error" and isinstance(value, int) and not isinstance(value, bool):
        try:
            return f"{value} ({ErrorCode(value).name})"
        except ValueError:
            return str(value)
    text = repr(value)
    return text if len(text) <= 300 else text[:300] + "..."


FIELDS_SHOWN = 10
EVENTS_SHOWN = 5


class Difference(Struct, frozen=True):
    """A reply that differs. `request`: its request; `fields`: all places where it differs;
    `before`: earlier requests of the same group or connection; `events`: the events of the group in
    the replay."""

    request: RequestFacts
    fields: tuple[FieldDifference, ...]
    before: tuple[RequestFacts, ...] = ()
    events: tuple[Mapping[str, Any], ...] = ()

    def __str__(self) -> str:
        lines = [self.request.shown()]
        for field in self.fields[:FIELDS_SHOWN]:
            lines.append(f"  {field.path or 'the reply'}:")
            lines.append(f"    recorded: {value_shown(field.path, field.expected)}")
            lines.append(f"    replayed: {value_shown(field.path, field.got)}")
        if len(self.fields) > FIELDS_SHOWN:
            lines.append(f"  and {len(self.fields) - FIELDS_SHOWN} more fields")
        if self.before:
            lines.append("before it:")
            lines += [f"  {one.shown()}" for one in self.before]
        if self.events:
            lines.append("events of the group in the replay:")
            lines.append(timeline_text(self.events[-EVENTS_SHOWN:]))
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The difference as `groupd replay --json` writes it."""
        return {
            "request": asdict(self.request),
            "fields": [asdict(field) for field in self.fields],
            "before": [asdict(one) for one in self.before],
            "events": [dict(event) for event in self.events],
        }
