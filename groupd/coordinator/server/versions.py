"""Answers ApiVersions: which APIs are served. The answer is the same before and after a login
(`docs/spec/security.md#2.2`)."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import structs

from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.topics.layout import features_of
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import ApiVersionsReply, ApiVersionsRequest
from groupd.protocol.wire.api.api_versions import versions_failure
from groupd.protocol.wire.api.cluster import GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY
from groupd.protocol.wire.apis import API_RANGES

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
"""The form that a client's name and version must have (KIP-511)."""

_TELEMETRY = (GET_TELEMETRY_SUBSCRIPTIONS.key, PUSH_TELEMETRY.key)


def software_of(request: ApiVersionsRequest) -> tuple[str, str]:
    """The name and version of the client's library; empty texts if the client names none."""
    return request.client_software_name, request.client_software_version


class VersionsAnswer:
    """Answers ApiVersions with what `broker` serves. `cluster_id()`: the id of the cluster.
    `subscriptions()`: how many subscriptions to clients' metrics there are (KIP-714)."""

    def __init__(
        self, broker: Broker, cluster_id: Callable[[], str], subscriptions: Callable[[], int]
    ) -> None:
        self._broker = broker
        self._cluster_id = cluster_id
        self._subscriptions = subscriptions
        self._whole = ApiVersionsReply(
            api_keys=API_RANGES, features=features_of(broker.config), features_epoch=0
        )
        without = tuple(served for served in API_RANGES if served.api_key not in _TELEMETRY)
        self._without_telemetry = structs.replace(self._whole, api_keys=without)

    def reply(self, version: int, request: ApiVersionsRequest) -> ApiVersionsReply:
        """The reply to a request. The checks and their order are Kafka's. A refused client may try
        again."""
        named = request.cluster_id is not None
        if named != (request.node_id != -1):
            return versions_failure(request, ErrorCode.INVALID_REQUEST, None)
        if version >= 3 and not all(map(_SOFTWARE.fullmatch, software_of(request))):
            return versions_failure(request, ErrorCode.INVALID_REQUEST, None)
        here = self._cluster_id(), self._broker.node.node_id
        if named and (request.cluster_id, request.node_id) != here:
            return versions_failure(request, ErrorCode.REBOOTSTRAP_REQUIRED, None)
        # A client that learns of telemetry asks for subscriptions again and again, and librdkafka
        # writes a line to its log. So Kafka too hides telemetry while there are no subscriptions.
        if self._subscriptions():
            return self._whole
        return self._without_telemetry
