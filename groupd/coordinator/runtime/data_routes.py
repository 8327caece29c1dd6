"""How requests that are not about groups are answered: a row for each type of request.

Some requests may change the catalogue. In a cluster the reply to such a request waits until all
other nodes use the changed catalogue, so that a client which goes on with another node finds the
change there.
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
"""(context, request, result of `handle`) -> reply."""


class DataRoute(Struct, frozen=True):
    """How one type of request is handled. The API itself (`Api.lane`) says which other requests of
    the connection may be under way at the same time.

    `handle` makes the reply. It may change something, so it runs to its end even if the client is
    gone.

    If a request waits, its row also has a `read`. Then `handle` does what must be done in any case,
    such as to apply changes that the request carries. `read` takes the result of `handle`, waits,
    and makes the reply. It changes nothing that has to outlive the client. So if the client is gone
    `read` is not begun, or is cancelled where it awaits something.

    `is_long(request)`: the request is worked on in parts. It holds its connection from the start,
    because the next request must not come between the parts.
    """

    handle: DataHandler
    read: ReadHandler | None = None
    is_long: Callable[[Any], bool] | None = None


def plain(handlers: Mapping[type, DataHandler]) -> dict[type, DataRoute]:
    """Returns rows that have nothing but a handler."""
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
        # Metadata creates topics that are missing.
        MetadataRequest,
    }
)
"""Types of requests that may change the catalogue."""


def spreading(routes: Mapping[type, DataRoute], changes: CatalogueChanges) -> dict[type, DataRoute]:
    """Returns the same rows; the handlers in `CHANGING` wait for the other nodes after a change."""
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
        # Another request may have made the change meanwhile. To wait for that, too, does no harm.
        if changes.made != before:
            await changes.spread(changes.made)
        return reply

    return handle
