"""What handlers of the admin port get and give: requests, replies, streams, refusals.

Paths have percent-encoded segments where they have to be. Any text may be the id of a group, but
`.`, `..` and the empty one cannot be a segment: clients take such segments out of a path before
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
    """`path`: the decoded segments. `query`: the first value of each parameter. `headers`: by name
    in lower case. `body` None: it was too large. `address` and `caller`, only where something may
    be changed: where the client is, and who it has shown to be."""

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


def as_json(value: Any, status: int = 200, *, compact: bool = False) -> HttpReply:
    """A JSON reply, indented for people unless it is `compact`. For values that may be very long
    there is `pages`."""
    body = json.encode(value) if compact else json.format(json.encode(value), indent=2)
    return HttpReply(body + b"\n", JSON, status)


class Refusal(Exception):
    """The request is not served; `reply` says why, in one line."""

    def __init__(self, reply: HttpReply) -> None:
        super().__init__(reply.body.decode(errors="replace").strip())
        self.reply = reply


def refusal(why: str, status: int = 400) -> Refusal:
    """To be raised by a handler, or by what it calls."""
    return Refusal(text(why, status))


StreamEvent = tuple[memoryview, ...]
"""The parts of an event, which may be long and which many clients read: nobody copies them."""


class HttpStream(Struct, frozen=True):
    """`first`: the events that come before `events`; each is taken out when it is sent, since a
    stream may stay open for days. `events`: it is closed when the client has gone."""

    events: AsyncGenerator[StreamEvent, None]
    first: list[StreamEvent] = field(default_factory=list)
    content_type: str = "text/event-stream"


Answer = HttpReply | HttpStream
HttpHandler = Callable[[HttpRequest], Answer | Awaitable[Answer]]
"""May raise Refusal."""
ControlHandler = Callable[[HttpRequest], Awaitable[HttpReply]]


def wants_page(request: HttpRequest) -> bool:
    """Whether a browser asks, which wants a page to look at."""
    return "text/html" in request.headers.get("accept", "")


def segments_of(path: str) -> tuple[str, ...]:
    """The decoded segments, as if every group had been asked for below `/groups`."""
    match tuple(unquote(part) for part in path.split("/") if part):
        case ("groups-named", group_id, *rest) if group_id.startswith("="):
            return ("groups", group_id[1:], *rest)
        case ("live", "groups-named", group_id) if group_id.startswith("="):
            return ("live", "groups", group_id[1:])
        case found:
            return found


def path_of(segments: tuple[str, ...]) -> str:
    """The path with these segments, which starts with a slash."""
    match segments:
        case ("groups", "" | "." | ".." as group_id, *rest):
            return "/".join(
                ("", "groups-named", f"={group_id}", *(quote(one, safe="") for one in rest))
            )
        case _:
            return "/" + "/".join(quote(one, safe="") for one in segments)
