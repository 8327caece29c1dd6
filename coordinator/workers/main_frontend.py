"""Requests at the main process: its own clients' and those that workers forward.

Whoever has created a topic may go to a worker next. So what changes topics, and Metadata, which
shows and makes them, is answered only when the serving workers know the topics too; a worker that
takes too long to say so does not hold it up for more than a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.waiting import Callback, Waiter
from groupd.coordinator.server.frontend import Frontend
from groupd.coordinator.server.slot import Slot
from groupd.coordinator.workers.messages import decode_forward
from groupd.protocol.messages.cluster import MetadataRequest
from groupd.protocol.messages.topics import (
    AlterConfigsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
)
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.header import (
    RequestHeader,
    parse_request_header,
    reply_frame,
    reply_header_version,
)
from groupd.protocol.wire.registry import Api

NEWS = frozenset(
    {
        AlterConfigsRequest,
        CreatePartitionsRequest,
        CreateTopicsRequest,
        DeleteTopicsRequest,
        IncrementalAlterConfigsRequest,
        MetadataRequest,
    }
)
"""Requests after whose answer all workers know what it says."""

WAIT_S = 1.0

Resolve = Callable[[Any], None]


class Readers(Protocol):
    """The workers, as far as they hear of topics and configs."""

    def behind(self) -> set[asyncio.Future[bytes]]:
        """What they have not taken in yet."""
        ...


class MainFrontend(Frontend):
    def __init__(self, broker: Broker, cluster_id: str, readers: Readers) -> None:
        super().__init__(broker, cluster_id)
        self._readers = readers

    def submit(self, slot: Slot, api: Api, request: Any) -> None:
        if type(request) not in NEWS:
            super().submit(slot, api, request)
            return
        known = Callback(request, api.failure, self._once_known(slot.send))
        slot.stand_in = known
        self._submit(known, slot.header, slot.connection.host)

    def forwarded(self, body: bytes) -> asyncio.Future[bytes]:
        """`Operation.FORWARD`: the frame of the reply, empty if there is none."""
        host, frame = decode_forward(body)
        header = parse_request_header(frame, API_BY_KEY)
        api, version = API_BY_KEY[header.api_key], header.api_version
        request = api.decode(frame, header.body_offset, version)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def resolve(reply: Any) -> None:
            if answer.done():
                return  # the worker is gone
            if reply is None:
                answer.set_result(b"")
                return
            try:
                encoded = api.encode(reply, version)
            except Exception as error:  # noqa: BLE001 - the worker is told, which logs it
                answer.set_exception(error)
                return
            header_version = reply_header_version(api, version)
            answer.set_result(bytes(reply_frame(header.correlation_id, header_version, encoded)))

        known = self._once_known(resolve) if type(request) in NEWS else resolve
        self._submit(Callback(request, api.failure, known), header, host)
        return answer

    def _submit(self, waiter: Waiter, header: RequestHeader, host: str) -> None:
        context = RequestContext(waiter, header.api_version, header.client_id or "", host)
        self._broker.submit(context, waiter.request)

    def _once_known(self, resolve: Resolve) -> Resolve:
        def settle(reply: Any) -> None:
            behind = self._readers.behind()
            if not behind:
                resolve(reply)
                return

            def answer() -> None:
                timer.cancel()
                for future in behind:
                    future.remove_done_callback(acknowledged)
                resolve(reply)

            def acknowledged(future: asyncio.Future[bytes]) -> None:
                behind.discard(future)
                if not behind:
                    answer()

            timer = asyncio.get_running_loop().call_later(WAIT_S, answer)
            for future in list(behind):
                future.add_done_callback(acknowledged)

        return settle
