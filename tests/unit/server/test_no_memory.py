"""A request that runs out of memory is answered or its connection is closed; nobody else notices.
Wherever memory may be missing, nothing may be left that waits for ever."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from groupd.coordinator.runtime.waiting import Gather, Part, WaitingRequests
from groupd.coordinator.server import connection as connection_module
from groupd.coordinator.server import slot as slot_module
from groupd.coordinator.server.outgoing import Outgoing
from groupd.coordinator.server.slot import Slot
from groupd.protocol.errors import ErrorCode
from groupd.protocol.wire.apis import API_BY_KEY
from tests.unit.server.harness import HEARTBEAT, Client, heartbeat, reply_to


def no_memory(*_: Any) -> Any:
    raise MemoryError


def assert_only_this_client_is_closed(client: Client) -> None:
    assert client.transport.aborted
    assert not client.connection._starting
    transport, other = client.connect()
    other.data_received(heartbeat(7))
    client.slots[-1].send(reply_to(client.slots[-1]))
    assert transport.sent
    assert not transport.aborted


async def test_in_the_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    api = msgspec.structs.replace(API_BY_KEY[HEARTBEAT], counted=no_memory)
    with monkeypatch.context() as patched:
        patched.setattr(connection_module, "API_BY_KEY", {**API_BY_KEY, HEARTBEAT: api})
        with capture_logs() as logs:
            client.send(heartbeat(1))
    assert [line["event"] for line in logs] == ["requests cannot be handled; connection closed"]
    assert_only_this_client_is_closed(client)


async def test_before_the_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    with monkeypatch.context() as patched:
        patched.setattr(client, "submit", no_memory)
        client.send(heartbeat(1))
    assert_only_this_client_is_closed(client)


async def test_when_replies_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    client.at_once = True
    with monkeypatch.context() as patched:
        patched.setattr(Outgoing, "write", no_memory)
        client.send(heartbeat(1))
    client.at_once = False
    assert_only_this_client_is_closed(client)


def answer(slot: Slot) -> None:
    slot.answer(reply_to(slot))


def refuse(slot: Slot) -> None:
    slot.failure = no_memory
    slot.fail(ErrorCode.NOT_COORDINATOR)


def answer_the_parts(slot: Slot) -> None:
    gather = Gather(slot, 2, lambda parts: parts[0])
    first, second = (Part(slot.request, no_memory, gather, index) for index in range(2))
    for part in (first, second):
        slot.waiting.add(part)
    first.answer(reply_to(slot))
    second.fail(ErrorCode.NOT_COORDINATOR)


@pytest.mark.parametrize("act", [answer, refuse, answer_the_parts])
async def test_when_a_reply_is_made(act: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    client.send(heartbeat(1))
    slot = client.slots[0]
    waiting = WaitingRequests()
    waiting.add(slot)
    with monkeypatch.context() as patched:
        patched.setattr(slot_module, "reply_frame", no_memory)
        act(slot)
    assert slot not in waiting
    assert_only_this_client_is_closed(client)
