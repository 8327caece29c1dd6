"""How requests that are not about groups are answered: a row for each type of request.

Some may change the catalogue. In a cluster the reply to such a request waits until all other nodes
work with what was changed, so a client that goes on with another node finds it there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.coordinator.core.types import DataHandler, RequestContext
from groupd.protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest
from groupd.protocol.messages.cluster import MetadataRequest
from groupd.protocol.messages.quotas import AlterClientQuotasRequest
from groupd.protocol.messages.topics import (
    AlterConfigsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
)
from groupd.protocol.messages.users import AlterUserScramCredentialsRequest

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


CHANGING = frozenset(
    {
        AlterClientQuotasRequest,
        AlterConfigsRequest,
        AlterUserScramCredentialsRequest,
        CreateAclsRequest,
        CreatePartitionsRequest,
        CreateTopicsRequest,
        DeleteAclsRequest,
        DeleteTopicsRequest,
        IncrementalAlterConfigsRequest,
        # It creates topics that are missing.
        MetadataRequest,
    }
)
"""Requests that may change the catalogue."""


def spreading(routes: Mapping[type, DataRoute], changes: CatalogueChanges) -> dict[type, DataRoute]:
    """The same rows, whose handlers wait for the other nodes where they have changed something."""
    return {
        request: replace(route, handle=_spreading(route.handle, changes))
        if request in CHANGING
        else route
        for request, route in routes.items()
    }


def _spreading(handler: DataHandler, changes: CatalogueChanges) -> DataHandler:
    async def handle(context: RequestContext, request: Any) -> Any:
        before = changes.made
        reply = await handler(context, request)
        # Another request may have made it meanwhile: to wait for it, too, does no harm.
        if changes.made != before:
            await changes.spread(changes.made)
        return reply

    return handle
