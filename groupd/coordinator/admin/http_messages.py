"""The types between the HTTP server of the admin port and its handlers: requests, replies, streams,
refusals.

The segments of a path are percent-encoded where necessary. Any text may be the id of a group, but
`.`, `..` and the empty text cannot be segments: clients remove such segments from a path before
they send it. So a group may also be asked for below `/groups-named`, with an equals sign before its
id: `/groups-named/=../offsets` are the offsets of the group `..`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote, unquote

from msgspec import Struct, field, json

JSON = "application/json"

Headers = tuple[tuple[str, str], ...]


class HttpRequest(Struct, frozen=True):
    """A request. `path`: the decoded segments. `query`: the first value of each parameter.
    `headers`: by name in lower case. `body` None: it was too large. `address` and `caller`: the
    client's address and its name; set only for requests that may change something."""

    path: tuple[str, ...]
    query: dict[str, str]
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = b""
    address: str = ""
    caller: str = ""


class HttpReply(Struct, frozen=True):
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200
    headers: Headers = ()


def text(body: str, status: int = 200, headers: Headers = ()) -> HttpReply:
    return HttpReply(body.encode() + b"\n", status=status, headers=headers)


def as_json(value: Any, status: int = 200) -> HttpReply:
    """A JSON reply, indented for people. For values that may be long, use `pages`."""
    return HttpReply(json.format(json.encode(value), indent=2) + b"\n", JSON, status)


class Refusal(Exception):
    """The request is refused; `reply` says why, in one line."""

    def __init__(self, reply: HttpReply) -> None:
        super().__init__(reply.body.decode(errors="replace").strip())
        self.reply = reply


def refusal(why: str, status: int = 400) -> Refusal:
    """A refusal to be raised by a handler, or by code that it calls."""
    return Refusal(text(why, status))


StreamEvent = tuple[memoryview, ...]
"""The parts of an event. They may be long, and many clients read them, so they are not copied."""


class HttpStream(Struct, frozen=True):
    """A reply without an end. `first`: the events that come before `events`. Each of them is taken
    out when it is sent, because a stream may stay open for days. `events` is closed when the client
    is gone."""

    events: AsyncGenerator[StreamEvent, None]
    first: list[StreamEvent]


Answer = HttpReply | HttpStream
HttpHandler = Callable[[HttpRequest], Answer | Awaitable[Answer]]
"""A handler may raise Refusal."""
ControlHandler = Callable[[HttpRequest], Awaitable[HttpReply]]


def wants_page(request: HttpRequest) -> bool:
    """Whether the client is a browser, which wants a page to show."""
    return "text/html" in request.headers.get("accept", "")


def segments_of(path: str) -> tuple[str, ...]:
    """The decoded segments of a path. A path below `/groups-named` gives the same as one below
    `/groups`."""
    match tuple(unquote(part) for part in path.split("/") if part):
        case ("groups-named", group_id, *rest) if group_id.startswith("="):
            return ("groups", group_id[1:], *rest)
        case ("live", "groups-named", group_id) if group_id.startswith("="):
            return ("live", "groups", group_id[1:])
        case found:
            return found


def path_of(segments: tuple[str, ...]) -> str:
    """The path with these segments, from its first slash. A group id that cannot be a segment is
    written below `/groups-named`."""
    match segments:
        case ("groups", "" | "." | ".." as group_id, *rest):
            return "/".join(
                ("", "groups-named", f"={group_id}", *(quote(one, safe="") for one in rest))
            )
        case _:
            return "/" + "/".join(quote(one, safe="") for one in segments)
