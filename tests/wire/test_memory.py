"""What clients may make a started broker hold: attacks stay within its limit, honest clients with
large requests and replies are served."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.bench.proc import resident_bytes
from tests.support.daemon import Daemon
from tests.support.metrics import total
from tests.support.peer import running
from tests.support.process import wait_until
from tests.support.raw import FETCH, RawConnection, frame, request, string

MB = 1_000_000
LIMIT = 128 * 1024 * 1024
STORED = 60
"""The megabytes in the topic."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    made = Daemon(tmp_path_factory.mktemp("daemon"), topics={"t": 1, "u": 4})
    with running(made):
        fill(made.bootstrap, "t", STORED)
        yield made


def fill(bootstrap: str, topic: str, megabytes: int, partition: int = 0) -> None:
    """Produces batches of nearly a megabyte each."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0})
    for _ in range(megabytes):
        producer.produce(topic, os.urandom(MB - 10_000), partition=partition)
        producer.poll(0)
    assert producer.flush(60) == 0


def send_what_it_takes(connection: RawConnection, data: bytes) -> None:
    """Sends until the peer reads no more."""
    connection.socket.settimeout(0.05)
    with contextlib.suppress(TimeoutError):
        connection.socket.sendall(data)


def large_fetch(correlation: int) -> bytes:
    """Fetch v4 of 55 MB."""
    body = struct.pack(">iiiib", -1, 500, 1, 55 << 20, 0) + struct.pack(">i", 1) + string("t")
    body += struct.pack(">i", 1) + struct.pack(">iqi", 0, 0, 55 << 20)
    return frame(request(FETCH, 4, correlation, body))


def open_connections(daemon: Daemon) -> float:
    return total(daemon.admin_url, "groupd_connections_open")


def held_bytes(daemon: Daemon) -> float:
    """The bytes of large frames, requests under way and replies that have not left, of all
    connections."""
    return total(daemon.admin_url, "groupd_held_bytes")


@pytest.fixture
def honest(daemon: Daemon) -> Iterator[RawConnection]:
    with RawConnection(daemon.port) as connection:
        yield connection


def test_beginnings_of_large_frames(daemon: Daemon, honest: RawConnection) -> None:
    before = resident_bytes(daemon.pid)
    with contextlib.ExitStack() as stack:
        beginning = struct.pack(">i", 100 * MB) + bytes(20 * MB)
        for _ in range(40):
            send_what_it_takes(stack.enter_context(RawConnection(daemon.port)), beginning)
            assert honest.works()
        assert resident_bytes(daemon.pid) - before < LIMIT


@pytest.mark.parametrize(("connections", "held"), [(1, 5 * MB), (50, 100 * MB)])
def test_large_replies_that_nobody_reads(
    daemon: Daemon, honest: RawConnection, connections: int, held: int
) -> None:
    # They would take a part of the room, each when its turn in the line comes.
    wait_until(lambda: open_connections(daemon) == 1, 20, "the end of earlier connections")
    before = resident_bytes(daemon.pid)
    with contextlib.ExitStack() as stack:
        fetches = b"".join(large_fetch(number) for number in range(200))
        for _ in range(connections):
            stack.enter_context(RawConnection(daemon.port)).send(fetches)
            assert honest.works()
        peak = 0

        def stuck() -> bool:
            nonlocal peak
            peak = max(peak, resident_bytes(daemon.pid))
            assert honest.works()
            if total(daemon.admin_url, "groupd_requests_waiting") > 0:
                return False  # it only has the room for its records
            return held_bytes(daemon) > held

        def seen() -> str:
            return f"held: {held_bytes(daemon)}, open: {open_connections(daemon)}"

        wait_until(stuck, 20, "replies that are not read", seen)
        assert peak < 400 * MB
    wait_until(
        lambda: resident_bytes(daemon.pid) < before + LIMIT // 2, 20, "memory that is given back"
    )


def test_who_takes_a_few_bytes_at_a_time_is_dropped(tmp_path: Path) -> None:
    settings = {"write_stall_timeout_ms": "500"}
    daemon = Daemon(tmp_path, topics={"t": 1}, settings=settings)
    with running(daemon), RawConnection(daemon.port) as connection:
        fill(daemon.bootstrap, "t", 15)
        connection.send(large_fetch(1))

        def dropped() -> bool:
            connection.socket.recv(1)
            return total(daemon.admin_url, "groupd_connections_stalled_total") > 0

        wait_until(dropped, 20, "the end of the connection")


def test_honest_clients_with_large_requests_and_replies(daemon: Daemon) -> None:
    with ThreadPoolExecutor(5) as pool:
        filled = [pool.submit(fill, daemon.bootstrap, "u", 25, number) for number in range(4)]
        read = pool.submit(read_all, daemon.bootstrap, "t", 0, STORED)
        for future in [*filled, read]:
            future.result()
        for number in range(4):
            pool.submit(read_all, daemon.bootstrap, "u", number, 25).result()


def read_all(bootstrap: str, topic: str, partition: int, records: int) -> None:
    """Reads all records with the largest fetches that a client can ask for."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "large",
            "fetch.max.bytes": 100 * MB,
            "max.partition.fetch.bytes": 100 * MB,
            "fetch.min.bytes": 50 * MB,
            "fetch.wait.max.ms": 200,
            "receive.message.max.bytes": 200 * MB,
            "check.crcs": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    for _ in range(records):
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
    consumer.close()


def test_a_frame_of_the_largest_size_several_at_once(daemon: Daemon) -> None:
    def produce_garbage(number: int) -> bytes:
        size = 95 * MB
        body = struct.pack(">hhii", -1, 1, 1000, 1) + string("t") + struct.pack(">i", 1)
        with RawConnection(daemon.port, timeout_s=60) as connection:
            head = body + struct.pack(">ii", 0, size)
            connection.send(frame(request(0, 3, number, head + bytes(size))))
            return connection.reply()[1]

    with ThreadPoolExecutor(3) as pool:
        replies = list(pool.map(produce_garbage, range(3)))
    assert len(set(replies)) == 1
    assert resident_bytes(daemon.pid) < 512 * MB
