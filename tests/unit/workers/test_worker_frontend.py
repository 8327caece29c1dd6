"""What a worker answers itself, what it forwards, and how much of that at a time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from groupd.coordinator.server.frontend import Frontend
from groupd.coordinator.workers import worker_frontend
from groupd.coordinator.workers.channel import Channel, ChannelBusy
from groupd.coordinator.workers.messages import decode_forward
from groupd.coordinator.workers.operations import Operation
from groupd.coordinator.workers.worker_frontend import WorkerFrontend
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import HeartbeatRequest
from groupd.protocol.messages.cluster import ApiVersionsRequest, MetadataRequest
from groupd.protocol.messages.data import InitProducerIdRequest
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.storage.log import LogUnavailable

METADATA, INIT_PRODUCER_ID = API_BY_KEY[3], API_BY_KEY[22]


class StubChannel:
    def __init__(self) -> None:
        self.calls: list[tuple[Operation, bytes, asyncio.Future[bytes]]] = []
        self.unsent_bytes = 0
        self.busy = False

    def start_call(self, operation: Operation, body: bytes) -> asyncio.Future[bytes]:
        if self.busy:
            raise ChannelBusy("full")
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.calls.append((operation, body, future))
        return future


class StubFrontend:
    def __init__(self) -> None:
        self.taken: list[Any] = []

    def submit(self, slot: Any, api: Any, request: Any) -> None:
        self.taken.append(request)

    def forget(self, slot: Any) -> None:
        self.taken.append(slot)


@dataclass
class Host:
    host: str = "/10.0.0.7"


@dataclass
class StubSlot:
    connection: Host = field(default_factory=Host)
    request_frame: bytes = b"as it came"
    replies: list[Any] = field(default_factory=list)

    def send(self, reply: Any) -> None:
        self.replies.append(reply)

    def send_frame(self, frame: bytes) -> None:
        self.replies.append(frame)


class Bench:
    def __init__(self) -> None:
        self.channel, self.local = StubChannel(), StubFrontend()
        self.frontend = WorkerFrontend(
            cast(Frontend, self.local), cast(Channel, self.channel), {HeartbeatRequest}
        )

    def ask(self, api: Any, request: Any) -> StubSlot:
        slot = StubSlot()
        self.frontend.submit(cast(Any, slot), api, request)
        return slot


@pytest.fixture
async def bench() -> Bench:
    return Bench()


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_its_own_requests_stay(bench: Bench) -> None:
    for request in (HeartbeatRequest("g", 1, "m"), ApiVersionsRequest()):
        bench.ask(METADATA, request)
        assert bench.local.taken[-1] is request
    assert bench.channel.calls == []


async def test_others_are_forwarded_as_they_came(bench: Bench) -> None:
    slot = bench.ask(METADATA, MetadataRequest(None))
    ((operation, body, answer),) = bench.channel.calls
    assert operation is Operation.FORWARD
    assert decode_forward(body) == ("/10.0.0.7", b"as it came")
    assert slot.replies == []
    answer.set_result(b"the whole reply")
    await settle()
    assert slot.replies == [b"the whole reply"]


async def test_a_producer_with_a_transactional_id_is_sent_to_its_coordinator(bench: Bench) -> None:
    slot = bench.ask(INIT_PRODUCER_ID, InitProducerIdRequest("tx", 1000))
    assert slot.replies[0].error is ErrorCode.NOT_COORDINATOR
    bench.ask(INIT_PRODUCER_ID, InitProducerIdRequest(None, 1000))
    assert len(bench.channel.calls) == 1


async def test_what_cannot_be_forwarded_is_refused(bench: Bench) -> None:
    slot = bench.ask(INIT_PRODUCER_ID, InitProducerIdRequest(None, 1000))
    bench.channel.calls[0][2].set_exception(LogUnavailable("gone"))
    await settle()
    bench.channel.busy = True
    other = bench.ask(INIT_PRODUCER_ID, InitProducerIdRequest(None, 1000))
    for asked in (slot, other):
        assert asked.replies[0].error is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_flood_is_refused_before_the_channel_is_full(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_frontend, "FORWARDS_MAX", 2)
    request = InitProducerIdRequest(None, 1000)
    slots = [bench.ask(INIT_PRODUCER_ID, request) for _ in range(3)]
    assert [len(slot.replies) for slot in slots] == [0, 0, 1]
    bench.channel.calls[0][2].set_result(b"")
    await settle()
    assert bench.ask(INIT_PRODUCER_ID, request).replies == [], "there is room again"
    monkeypatch.setattr(worker_frontend, "FORWARDS_MAX", 100)
    bench.channel.unsent_bytes = worker_frontend.UNSENT_BYTES_MAX + 1
    assert len(bench.ask(INIT_PRODUCER_ID, request).replies) == 1
    assert len(bench.channel.calls) == 3
