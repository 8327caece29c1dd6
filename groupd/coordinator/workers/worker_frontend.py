"""A worker's requests: those for its shards go to its broker, those that any node may be asked are
forwarded to the main process, as the bytes that came."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import structlog

from groupd.coordinator.server.frontend import Frontend
from groupd.coordinator.server.slot import Slot
from groupd.coordinator.workers.channel import Channel
from groupd.coordinator.workers.messages import Forward, WorkerOperation, decode_answer, encode
from groupd.coordinator.workers.offsets_plane import forwarded
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import ApiVersionsRequest
from groupd.protocol.wire.registry import Api
from groupd.storage.log import LogError

log = structlog.get_logger("groupd.workers")

FORWARDS_MAX = 10_000
UNSENT_BYTES_MAX = 64 * 1024 * 1024
"""Beyond so many unsent bytes requests are refused. It is below the limits of the channel, which
has appends to carry too: a flood of requests must not make them fail."""


class WorkerFrontend:
    """A `coordinator.server.connection.Requests`. `local`: the types of requests that `frontend`
    answers."""

    def __init__(self, frontend: Frontend, channel: Channel, local: Collection[type]) -> None:
        self._frontend = frontend
        self._channel = channel
        self._under_way = 0
        self._local = frozenset(local) | {ApiVersionsRequest}

    def submit(self, slot: Slot, api: Api, request: Any) -> None:
        if type(request) in self._local:
            self._frontend.submit(slot, api, request)
        elif forwarded(request):
            self._forward(slot, api, request)
        else:
            slot.send(api.failure(request, ErrorCode.NOT_COORDINATOR, None))

    def forget(self, slot: Slot) -> None:
        """A reply to a forwarded request is dropped."""
        self._frontend.forget(slot)

    def _forward(self, slot: Slot, api: Api, request: Any) -> None:
        if self._under_way >= FORWARDS_MAX or self._channel.unsent_bytes > UNSENT_BYTES_MAX:
            slot.send(api.failure(request, ErrorCode.COORDINATOR_NOT_AVAILABLE, None))
            return
        body = encode(Forward(slot.connection.host, slot.request_frame))

        def answered(future: asyncio.Future[bytes]) -> None:
            self._under_way -= 1
            if future.cancelled():
                return
            error = future.exception()
            if error is None:
                slot.send_frame(decode_answer(WorkerOperation.FORWARD, future.result()))
            else:
                log.warning("request could not be forwarded", api=api.name, reason=str(error))
                slot.send(api.failure(request, ErrorCode.COORDINATOR_NOT_AVAILABLE, None))

        try:
            forwarding = self._channel.start_call(WorkerOperation.FORWARD, body)
        except LogError as error:
            log.warning("request could not be forwarded", api=api.name, reason=str(error))
            slot.send(api.failure(request, ErrorCode.COORDINATOR_NOT_AVAILABLE, None))
            return
        self._under_way += 1
        forwarding.add_done_callback(answered)
