"""Handlers of requests that may change the catalogue. In a cluster the reply waits until all other
nodes work with what was changed, so a client that goes on with another node finds it there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.coordinator.core.types import DataHandler, RequestContext
from groupd.coordinator.runtime.data_routes import DataRoute
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
