"""How requests that are not about groups are answered: a row for each type of request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from groupd.coordinator.core.types import DataHandler, RequestContext

ReadHandler = Callable[[RequestContext, Any, Any], Awaitable[Any]]
"""(context, request, what `handle` has given) -> reply."""


class DataRoute(Struct, frozen=True):
    """The way of one type of request. Which other requests of its connection may be under way at
    the same time is said by the API itself (`Api.lane`).

    `handle` gives the reply. What it does may have effects, so it goes on to its end when the
    client is gone. If a request waits, its row has a `read`, too: `handle` does what must be done
    in any case, such as to apply what rides on the request, and `read` goes on with what it has
    given, waits, and gives the reply. It changes nothing that has to outlive the client, so it is
    not begun, or ends wherever it awaits something, when the client is gone.
    `is_long(request)`: the request is worked on in parts, and holds its connection from the start,
    because the next one must not come between them.
    """

    handle: DataHandler
    read: ReadHandler | None = None
    is_long: Callable[[Any], bool] | None = None


def plain(handlers: Mapping[type, DataHandler]) -> dict[type, DataRoute]:
    """The rows of requests of which there is no more to say than who answers them."""
    return {request: DataRoute(handler) for request, handler in handlers.items()}
