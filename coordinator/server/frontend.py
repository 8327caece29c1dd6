"""Hands the decoded requests of a connection to the broker."""

from __future__ import annotations

import re
from typing import Any

from groupd.coordinator.config import CoordinatorConfig
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.server.slot import Slot
from groupd.coordinator.topics.layout import features_of
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import ApiRange, ApiVersionsReply, ApiVersionsRequest
from groupd.protocol.wire.api import get_telemetry_subscriptions, push_telemetry
from groupd.protocol.wire.apis import API_RANGES
from groupd.protocol.wire.registry import Api

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
"""The form that a client's name and version must have (KIP-511)."""


_TELEMETRY = (get_telemetry_subscriptions.API.key, push_telemetry.API.key)


class Frontend:
    """Builds the request context. Answers ApiVersions itself, because that is about the wire."""

    def __init__(self, broker: Broker, cluster_id: str) -> None:
        self._broker = broker
        self._cluster_id = cluster_id
        self._api_versions = ApiVersionsReply(
            api_keys=_served(broker.config),
            features=features_of(broker.config),
            features_epoch=0,
        )

    def submit(self, slot: Slot, api: Api, request: Any) -> None:
        if isinstance(request, ApiVersionsRequest):
            slot.send(self._versions(slot, api, request))
            return
        header, connection = slot.header, slot.connection
        session = connection.session
        context = RequestContext(
            slot,
            header.api_version,
            header.client_id or "",
            connection.host,
            session.access,
            session.listener,
        )
        self._broker.submit(context, request)

    def _versions(self, slot: Slot, api: Api, request: ApiVersionsRequest) -> Any:
        """Answers ApiVersions. The checks and their order are Kafka's. A refused client may try
        again."""
        said = request.client_software_name, request.client_software_version
        version = slot.header.api_version
        named = request.cluster_id is not None
        if named != (request.node_id != -1):
            return api.failure(request, ErrorCode.INVALID_REQUEST, None)
        if version >= 3 and not all(map(_SOFTWARE.fullmatch, said)):
            return api.failure(request, ErrorCode.INVALID_REQUEST, None)
        here = self._cluster_id, self._broker.node.node_id
        if named and (request.cluster_id, request.node_id) != here:
            return api.failure(request, ErrorCode.REBOOTSTRAP_REQUIRED, None)
        slot.connection.software = said
        return self._api_versions

    def forget(self, slot: Slot) -> None:
        self._broker.forget(slot.stand_in or slot)


def _served(config: CoordinatorConfig) -> tuple[ApiRange, ...]:
    """The APIs that clients are told of."""
    hidden = () if config.telemetry_enable else _TELEMETRY
    return tuple(served for served in API_RANGES if served.api_key not in hidden)
