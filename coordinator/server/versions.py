"""Answers ApiVersions: which APIs are served. The answer is the same before and after a login
(`docs/spec/security.md#2.2`)."""

from __future__ import annotations

import re

from groupd.coordinator.config import CoordinatorConfig
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.topics.layout import features_of
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import ApiRange, ApiVersionsReply, ApiVersionsRequest
from groupd.protocol.wire.api import api_versions, get_telemetry_subscriptions, push_telemetry
from groupd.protocol.wire.apis import API_RANGES

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
"""The form that a client's name and version must have (KIP-511)."""

_TELEMETRY = (get_telemetry_subscriptions.API.key, push_telemetry.API.key)


def software_of(request: ApiVersionsRequest) -> tuple[str, str]:
    """Name and version of the client's library."""
    return request.client_software_name, request.client_software_version


class VersionsAnswer:
    """Answers ApiVersions with what `broker` serves."""

    def __init__(self, broker: Broker, cluster_id: str) -> None:
        self._broker = broker
        self._cluster_id = cluster_id
        self._reply = ApiVersionsReply(
            api_keys=_served(broker.config),
            features=features_of(broker.config),
            features_epoch=0,
        )

    def reply(self, version: int, request: ApiVersionsRequest) -> ApiVersionsReply:
        """The checks and their order are Kafka's. A refused client may try again."""
        failure = api_versions.failure
        named = request.cluster_id is not None
        if named != (request.node_id != -1):
            return failure(request, ErrorCode.INVALID_REQUEST, None)
        if version >= 3 and not all(map(_SOFTWARE.fullmatch, software_of(request))):
            return failure(request, ErrorCode.INVALID_REQUEST, None)
        here = self._cluster_id, self._broker.node.node_id
        if named and (request.cluster_id, request.node_id) != here:
            return failure(request, ErrorCode.REBOOTSTRAP_REQUIRED, None)
        return self._reply


def _served(config: CoordinatorConfig) -> tuple[ApiRange, ...]:
    """The APIs that clients are told of."""
    hidden = () if config.telemetry_enable else _TELEMETRY
    return tuple(served for served in API_RANGES if served.api_key not in hidden)
