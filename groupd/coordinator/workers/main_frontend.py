"""Requests at the main process: its own clients' and those that workers forward.

A client that has created a topic may go to a worker next. So requests that change topics, and
Metadata, which shows and creates them, are answered only when all serving workers have confirmed
the change; a worker that is slow to do so holds the answer up for at most `WAIT_S`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from groupd.coordinator.core.slices import Steps
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.waiting import Callback, Waiter
from groupd.coordinator.server.decoding import AT_ONCE, Decoded, Decoder
from groupd.coordinator.server.frontend import Frontend
from groupd.coordinator.server.slot import Slot
from groupd.coordinator.workers.messages import Forward
from groupd.protocol.messages.cluster import MetadataRequest
from groupd.protocol.messages.throttled import Throttled
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
from groupd.protocol.wire.registry import Api, LongRequest
from groupd.storage.log import LogUnavailable

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
"""Requests that are answered only when all workers know the change."""

WAIT_S = 1.0

Resolve = Callable[[Any], None]


class Readers(Protocol):
    """The workers, as receivers of changes of topics and configs."""

    def behind(self) -> set[asyncio.Future[bytes]]:
        """Changes that they have not confirmed yet."""
        ...


class MainFrontend(Frontend):
    def __init__(self, broker: Broker, cluster_id: str, readers: Readers) -> None:
        super().__init__(broker, cluster_id)
        self._readers = readers
        self._decoder = Decoder(broker.config.request_max_items)

    def submit(self, slot: Slot, api: Api, request: Any) -> None:
        if type(request) not in NEWS:
            super().submit(slot, api, request)
            return
        known = Callback(request, api.failure, self._once_known(slot.send), slot.lose)
        slot.stand_in = known
        self._submit(known, slot.header, slot.connection.host)

    def forwarded(self, forward: Forward) -> asyncio.Future[bytes]:
        """`WorkerOperation.FORWARD`: the frame of the reply, empty if there is none."""
        host, frame = forward.host, forward.frame
        header = parse_request_header(frame, API_BY_KEY)
        api, version = API_BY_KEY[header.api_key], header.api_version
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def resolve(reply: Any) -> None:
            if answer.done():
                return  # the worker is gone
            if reply is None:
                answer.set_result(b"")
                return
            steps = _frame_in_steps(api, header, reply)
            self._broker.work.add_reply(steps, settle, lambda: not answer.done())

        def settle(result: bytes | Exception) -> None:
            """The worker gets an exception, too, and logs it."""
            if isinstance(result, Exception):
                answer.set_exception(result)
            else:
                answer.set_result(result)

        def lost() -> None:
            if not answer.done():
                answer.set_exception(LogUnavailable("there will be no reply; see the log"))

        def start(found: Decoded | Exception) -> None:
            if answer.done():
                return
            if isinstance(found, Exception):
                answer.set_exception(found)
                return
            request, _ = found
            known = self._once_known(resolve) if type(request) in NEWS else resolve
            self._submit(Callback(request, api.failure, known, lost), header, host)

        try:
            start(api.counted(frame, header.body_offset, version, AT_ONCE))
        except LongRequest:
            self._decoder.in_thread(answer, frame, header, api, start)
        return answer

    def close(self) -> None:
        """Call it after the last request."""
        self._decoder.close()

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


def _frame_in_steps(api: Api, header: RequestHeader, reply: Any) -> Steps[bytes]:
    """The frame of a reply, which may be long."""
    version = header.api_version
    throttle_ms = reply.throttle_ms if isinstance(reply, Throttled) else 0
    body: bytes | bytearray | None = None
    if api.steps is None:
        body = api.encode(reply, version, throttle_ms)
    else:
        steps = api.steps(reply, version, throttle_ms)
        while body is None:
            try:
                next(steps)
            except StopIteration as ended:
                body = ended.value
            else:
                yield
    assert body is not None
    header_version = reply_header_version(api, version)
    return bytes(reply_frame(header.correlation_id, header_version, body))
