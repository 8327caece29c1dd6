"""A whole daemon in this process: real sockets, a store in memory, a clock that the test moves."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from structlog.testing import capture_logs

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.daemon.daemon import CannotStart, Daemon
from groupd.coordinator.daemon.options import DaemonOptions
from groupd.protocol.errors import ErrorCode
from groupd.protocol.records.batch_builder import encode_batch
from groupd.storage.sqlite import sqlite_store
from tests.support.loop_turns import until
from tests.support.manual_clock import ManualClock
from tests.support.prompt_clock import PromptClock
from tests.support.raw import api_versions, fetch, frame, request, string
from tests.unit.server.harness import heartbeat, join

DEADLINE_S = 10.0
CONSUMER_HEARTBEAT = 68


def options(**more: Any) -> DaemonOptions:
    config = CoordinatorConfig(
        offsets_topic_num_partitions=3,
        group_initial_rebalance_delay_ms=0,
        consumer_assignment_interval_ms=0,
        consumer_target_linger_ms=0,
        **more.pop("config", {}),
    )
    settings = {
        "listen": ("127.0.0.1", 0),
        "admin": ("127.0.0.1", 0),
        "store_url": "memory://",
        "topics": (("t", 4),),
        "config": config,
    }
    return DaemonOptions(**{**settings, **more})


OPEN: list[asyncio.StreamWriter] = []
"""Client sockets of the running test."""


@pytest.fixture(autouse=True)
async def no_socket_stays() -> AsyncIterator[None]:
    yield
    for writer in OPEN:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    OPEN.clear()


async def dial(address: tuple[str, int]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(*address)
    OPEN.append(writer)
    return reader, writer


class Running:
    """A daemon between `async with` and its end."""

    def __init__(self, clock: ManualClock | None = None, **more: Any) -> None:
        self.clock = clock or PromptClock()
        self.daemon = Daemon(options(**more), self.clock)

    async def __aenter__(self) -> Running:
        await self.daemon.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        await self.daemon.stop()

    @property
    def waiting(self) -> int:
        return len(self.daemon.broker.waiting)

    async def connect(self) -> Peer:
        return Peer(*await dial(self.daemon.kafka_address))

    async def http(self, data: bytes) -> tuple[int, bytes, bytes]:
        """(status, head, body) of what the admin port says to these bytes."""
        reader, writer = await dial(self.daemon.admin_address)
        writer.write(data)
        async with asyncio.timeout(DEADLINE_S):
            answer = await reader.read()
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]) if head else 0, head, body

    async def get(self, path: str) -> tuple[int, bytes]:
        status, _, body = await self.http(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        return status, body


class Peer:
    """A client that sends and reads bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def reply(self) -> tuple[int, bytes]:
        async with asyncio.timeout(DEADLINE_S):
            (length,) = struct.unpack(">i", await self.reader.readexactly(4))
            payload = await self.reader.readexactly(length)
        return struct.unpack(">i", payload[:4])[0], payload[4:]

    async def ask(self, data: bytes) -> tuple[int, bytes]:
        self.writer.write(data)
        return await self.reply()

    async def ended(self) -> bool:
        async with asyncio.timeout(DEADLINE_S):
            try:
                return await self.reader.read() == b""
            except ConnectionResetError:
                return True

    async def consumer_heartbeat(self, member: str, epoch: int, *, joins: bool = False) -> Any:
        """ConsumerGroupHeartbeat v0 of group "c": (error, epoch, partitions or None)."""
        body = compact("c") + compact(member) + struct.pack(">i", epoch) + b"\x00\x00"
        body += struct.pack(">i", 20_000 if joins else -1)
        body += (b"\x02" + compact("t") if joins else b"\x00") + b"\x00"
        body += (b"\x01" if joins else b"\x00") + b"\x00"
        _, data = await self.ask(frame(request(CONSUMER_HEARTBEAT, 0, 1, b"\x00" + body)))
        (error,) = struct.unpack_from(">h", data, 5)
        at = 7
        for _ in range(2):  # error message, member id
            at += max(data[at] - 1, 0) + 1
        (epoch,) = struct.unpack_from(">i", data, at)
        at += 8
        if data[at] == 0xFF:
            return error, epoch, None
        count = data[at + 1] - 1
        if count <= 0:
            return error, epoch, []
        (partitions,) = data[at + 18 : at + 19]
        return error, epoch, list(struct.unpack_from(f">{partitions - 1}i", data, at + 19))


def compact(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


# Time ---------------------------------------------------------------------------------------


async def test_session_expiry_moves_partitions_without_sleeping() -> None:
    async with Running() as running:
        first, second = await running.connect(), await running.connect()
        assert (await first.consumer_heartbeat("m1", 0, joins=True))[2] == [0, 1, 2, 3]
        error, epoch, partitions = await second.consumer_heartbeat("m2", 0, joins=True)
        assert (error, partitions) == (0, [])
        config = running.daemon.options.config
        running.clock.advance(config.consumer_session_timeout_ms - 1)
        assert (await second.consumer_heartbeat("m2", epoch))[0] == 0
        running.clock.advance(1)
        error, _, partitions = await second.consumer_heartbeat("m2", epoch)
        assert (error, partitions) == (0, [0, 1, 2, 3])
        assert (await first.consumer_heartbeat("m1", 1))[0] == ErrorCode.UNKNOWN_MEMBER_ID


async def test_idle_connections_are_closed_and_busy_ones_stay() -> None:
    async with Running(config={"connections_max_idle_ms": 60_000}) as running:
        idle, busy, waits = [await running.connect() for _ in range(3)]
        for peer in (idle, busy):
            await peer.ask(api_versions(1))
        waits.writer.write(fetch(1, "t", 0, 0, 600_000))
        await until(lambda: running.waiting == 1)
        running.clock.advance(40_000)
        await busy.ask(api_versions(2))
        running.clock.advance(55_000)
        assert await idle.ended()
        assert (await busy.ask(api_versions(3)))[0] == 3
        assert running.daemon.connections.open == 2


# Clients that go ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("parked", [join(1), fetch(1, "t", 0, 0, 600_000)], ids=["join", "fetch"])
async def test_a_client_that_goes_while_its_request_waits_leaves_nothing(parked: bytes) -> None:
    async with Running() as running:
        peer = await running.connect()
        await peer.ask(api_versions(0))
        before = asyncio.all_tasks()
        peer.writer.write(parked)
        await until(lambda: running.waiting == 1)
        peer.writer.close()
        await until(lambda: running.waiting == 0 and running.daemon.connections.open == 0)
        await until(lambda: asyncio.all_tasks() <= before)
        running.clock.advance(1_000)
        other = await running.connect()
        assert (await other.ask(api_versions(5)))[0] == 5


# Produce ------------------------------------------------------------------------------------


def produce(correlation: int, acks: int, records: bytes | None = None) -> bytes:
    """Produce v3 to partition 0 of "t"."""
    body = struct.pack(">hhi", -1, acks, 1000) + struct.pack(">i", 1) + string("t")
    data = struct.pack(">i", -1) if records is None else struct.pack(">i", len(records)) + records
    body += struct.pack(">ii", 1, 0) + data
    return frame(request(0, 3, correlation, body))


async def test_a_produce_without_acks_has_no_reply_and_the_others_keep_their_order() -> None:
    records = encode_batch(0, -1, 1_700_000_000_000, [(None, b"v")])
    async with Running(topics=(("t", 1),)) as running:
        peer = await running.connect()
        produced = [produce(number, acks, records) for number, acks in ((2, 0), (3, 1), (4, 0))]
        peer.writer.write(api_versions(1) + b"".join(produced) + api_versions(5))
        assert [(await peer.reply())[0] for _ in range(3)] == [1, 3, 5]
        await until(lambda: running.waiting == 0)


async def test_se_68_a_produce_without_acks_that_fails_closes_the_connection() -> None:
    async with Running() as running:
        peer = await running.connect()
        peer.writer.write(api_versions(1) + produce(2, 0, b"no batch") + api_versions(3))
        assert (await peer.reply())[0] == 1
        assert await peer.reader.read() == b""


# Start --------------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["listen", "admin"])
async def test_a_busy_port_is_one_line_and_gives_everything_back(flag: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        daemon = Daemon(options(**{flag: ("127.0.0.1", port), "store_url": None,
                                   "data_dir": tmp_path}))  # fmt: skip
        with pytest.raises(CannotStart) as refused:
            await daemon.start()
    assert str(refused.value).startswith(f"--{flag} 127.0.0.1:{port}: the port is in use")
    assert "\n" not in str(refused.value)
    assert daemon.connections.open == 0
    store = sqlite_store(tmp_path / "groupd.sqlite")
    await store.start()  # the lock is free
    await store.close()
    if flag == "admin":
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*daemon.kafka_address)


async def test_a_topic_that_cannot_be_made_gives_everything_back(tmp_path: Path) -> None:
    daemon = Daemon(options(topics=(("bad/name", 1),), store_url=None, data_dir=tmp_path))
    with pytest.raises(CannotStart, match="--topic bad/name:1"):
        await daemon.start()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*daemon.kafka_address)
    store = sqlite_store(tmp_path / "groupd.sqlite")
    await store.start()
    await store.close()


async def test_a_start_that_is_cancelled_gives_everything_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = Daemon(options(store_url=None, data_dir=tmp_path))
    loading = asyncio.Event()

    async def long_load(self: Any) -> None:
        loading.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("groupd.coordinator.runtime.broker.Broker.load", long_load)
    start = asyncio.ensure_future(daemon.start())
    await loading.wait()
    reader, writer = await dial(daemon.kafka_address)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert await Peer(reader, writer).ended()
    store = sqlite_store(tmp_path / "groupd.sqlite")
    await store.start()
    await store.close()


async def test_another_number_of_shards_than_the_store_has_is_refused(tmp_path: Path) -> None:
    running = Daemon(options(store_url=None, data_dir=tmp_path))
    await running.start()
    await running.stop()
    config = CoordinatorConfig(offsets_topic_num_partitions=4)
    other = Daemon(
        DaemonOptions(("127.0.0.1", 0), ("127.0.0.1", 0), data_dir=tmp_path, config=config)
    )
    with pytest.raises(CannotStart, match="the store was made with 3"):
        await other.start()


async def test_while_shards_load_clients_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    running = Running()
    load = running.daemon.__class__.start
    assert load is Daemon.start
    go, loading = asyncio.Event(), asyncio.Event()
    original = __import__("groupd.coordinator.runtime.broker", fromlist=["Broker"]).Broker.load

    async def slow_load(self: Any) -> None:
        self.started = True
        loading.set()
        await go.wait()
        await original(self)

    monkeypatch.setattr("groupd.coordinator.runtime.broker.Broker.load", slow_load)
    start = asyncio.ensure_future(running.daemon.start())
    await loading.wait()
    peer = await running.connect()
    assert (await peer.consumer_heartbeat("m1", 0, joins=True))[0] == 14
    assert (await peer.ask(heartbeat(1)))[1] == struct.pack(">h", 0)
    assert (await running.get("/readyz"))[0] == 503
    assert (await running.get("/healthz"))[0] == 200
    go.set()
    await start
    assert (await peer.consumer_heartbeat("m1", 0, joins=True))[0] == 0
    assert (await running.get("/readyz"))[0] == 200
    await running.daemon.stop()


# Stop ---------------------------------------------------------------------------------------


async def test_a_stop_answers_everything_and_leaves_no_task() -> None:
    before = asyncio.all_tasks()
    running = Running(ManualClock())
    await running.daemon.start()
    joining, polling, idle, slow = [await running.connect() for _ in range(4)]
    joining.writer.write(join(1) + heartbeat(2))
    polling.writer.write(fetch(3, "t", 0, 0, 600_000))
    await until(lambda: running.waiting == 2)
    slow.writer.write(b"\x00\x00")  # half a length
    with capture_logs() as logs:
        await running.daemon.stop()
    correlation, body = await joining.reply()
    assert (correlation, struct.unpack_from(">h", body)) == (1, (ErrorCode.NOT_COORDINATOR,))
    assert (await polling.reply())[0] == 3
    for peer in (joining, polling, idle, slow):
        assert await peer.ended()
    assert running.waiting == 0
    assert [line["event"] for line in logs] == ["stopped"]
    assert running.daemon.connections.open == 0
    await until(lambda: asyncio.all_tasks() <= before)
    assert running.clock.next_timer_ms() is None, "a timer would keep the daemon alive"
    await running.daemon.stop()


async def test_a_stop_closes_also_what_does_not_read() -> None:
    running = Running(config={"write_buffer_max_bytes": 1024})
    await running.daemon.start()
    peer = await running.connect()
    ports = running.daemon._ports
    assert ports is not None
    await peer.ask(api_versions(0))
    (connection,) = ports._of_all
    requests = b"".join(api_versions(number) for number in range(1000))
    while not connection._out.draining:
        peer.writer.write(requests)
        await asyncio.sleep(0)
    started = time.monotonic()
    await running.daemon.stop()
    assert time.monotonic() - started < 3
    await until(lambda: running.daemon.connections.open == 0)


# Admin port ---------------------------------------------------------------------------------


async def test_the_admin_port_shows_groups_and_their_events() -> None:
    async with Running() as running:
        peer = await running.connect()
        await peer.consumer_heartbeat("m1", 0, joins=True)
        status, body = await running.get("/groups")
        assert status == 200
        assert b'"group_id":"c"' in body
        status, body = await running.get("/groups/c")
        assert status == 200
        assert b'"member_id": "m1"' in body
        assert b'"held_by"' not in body
        await peer.consumer_heartbeat("m2", 0, joins=True)
        _, body = await running.get("/groups/c")
        assert b'"held_by": "m1"' in body
        status, body = await running.get("/groups/c/events")
        assert status == 200
        assert b'"event":"member-joined"' in body
        assert await running.get("/groups/nobody") == (404, b"no group nobody\n")
        assert await running.get("/groups/nobody/events") == (200, b"[]\n")
        assert (await running.get("/groups/c/events/more"))[0] == 404
        assert (await running.get("/groups/%2Fc"))[1] == b"no group /c\n"


async def test_groups_of_a_shard_that_does_not_serve_are_not_shown() -> None:
    from groupd.coordinator.runtime.shard_state import CoordinatorState

    async with Running() as running:
        peer = await running.connect()
        await peer.consumer_heartbeat("m1", 0, joins=True)
        shard = running.daemon.broker.shard_of("c")
        shard.state = CoordinatorState.FAILED
        assert await running.get("/groups") == (200, b"[]\n")
        assert await running.get("/groups/c") == (503, b"the shard of group c is failed\n")
        shard.state = CoordinatorState.ACTIVE


@pytest.mark.parametrize("state", ["loading", "active", "failed", "closed"])
async def test_metrics_can_be_scraped_in_every_state_of_a_shard(state: str) -> None:
    from groupd.coordinator.runtime.shard_state import CoordinatorState

    async with Running() as running:
        shard = running.daemon.broker.shard_of("c")
        shard.state = CoordinatorState(state)
        status, body = await running.get("/metrics")
        shard.state = CoordinatorState.ACTIVE
    assert status == 200
    name = b"kafka_server_group_coordinator_metrics_num_partitions"
    counts = {
        kind: float(line.split()[-1])
        for line in body.splitlines()
        if line.startswith(name)
        for kind in ("loading", "active", "failed")
        if f'state="{kind}"'.encode() in line
    }
    expected = {"loading": 0.0, "active": 2.0, "failed": 0.0}
    if state != "closed":
        expected[state] += 1
    assert counts == expected


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"POST /events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405),
        (b"POST /groups HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 415),
        (b"DELETE / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (b"GET / HTTP/1.0\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET //[ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"\x00\x01\x02 garbage\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", 431),
    ],
    ids=[
        "404",
        "post",
        "post-no-json",
        "delete",
        "http-1.0",
        "no-host",
        "bad-target",
        "garbage",
        "large-header",
    ],
)
async def test_odd_requests_to_the_admin_port(data: bytes, status: int) -> None:
    async with Running() as running:
        answer = await running.http(data)
        assert answer[0] == status
        assert (await running.get("/healthz")) == (200, b"ok\n")


async def test_head_has_the_length_and_no_body() -> None:
    async with Running() as running:
        status, head, body = await running.http(b"HEAD /healthz HTTP/1.0\r\n\r\n")
        assert (status, body) == (200, b"")
        assert b"content-length: 3" in head.lower()


async def test_a_client_that_says_nothing_to_the_admin_port_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("groupd.coordinator.admin.http_server.REQUEST_TIMEOUT_S", 0.05)
    async with Running() as running:
        assert (await running.http(b"GET / HT"))[0] == 0


async def test_a_handler_that_fails_is_a_500(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Any, request: Any) -> Any:
        raise RuntimeError("bug")

    monkeypatch.setattr("groupd.coordinator.admin.groups.GroupRoutes.__call__", broken)
    async with Running() as running:
        with capture_logs() as logs:
            assert (await running.get("/groups"))[0] == 500
        assert [line["event"] for line in logs] == ["admin request failed"]
