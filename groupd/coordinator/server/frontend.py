"""Hands the decoded requests of a connection to the broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.server.slot import Slot
from groupd.coordinator.server.versions import VersionsAnswer, software_of
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import ApiVersionsRequest
from groupd.protocol.wire.registry import Api


class Frontend:
    """Builds the request context. Answers ApiVersions itself, because that request is about the
    wire. `cluster_id()`, `subscriptions()`: see `VersionsAnswer`."""

    def __init__(
        self, broker: Broker, cluster_id: Callable[[], str], subscriptions: Callable[[], int]
    ) -> None:
        self._broker = broker
        self.versions = VersionsAnswer(broker, cluster_id, subscriptions)

    def submit(self, slot: Slot, api: Api, request: Any) -> None:
        if isinstance(request, ApiVersionsRequest):
            reply = self.versions.reply(slot.header.api_version, request)
            if reply.error == ErrorCode.NONE:
                slot.connection.software = software_of(request)
            slot.send(reply)
            return
        header, connection = slot.header, slot.connection
        session = connection.session
        access = session.access
        if access.restricted:
            slot.rights = access, access.version
        context = RequestContext(
            slot,
            header.api_version,
            header.client_id or "",
            connection.host,
            access,
            session.listener,
        )
        self._broker.submit(context, request)

    def forget(self, slot: Slot) -> None:
        self._broker.forget(slot.stand_in or slot)
