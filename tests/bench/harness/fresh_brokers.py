"""So many tests, each with a fresh broker of the peer in `GROUPD_BENCH_PEER`. Not collected by
itself: `tests.bench.harness` runs it."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

import pytest

from tests.bench.harness.measures import NONE, PEER_VARIABLE, TOPICS
from tests.bench.peers.embedded import KINDS, Broker, Kind

API_VERSIONS = 18
NUMBER = 7
NAME = os.environ.get(PEER_VARIABLE, NONE)
TESTS = int(os.environ.get("GROUPD_BENCH_TESTS", "1"))


@pytest.fixture(scope="session")
def kind() -> Iterator[Kind | None]:
    made = next((cls(TOPICS) for cls in KINDS if cls.name == NAME), None)
    assert (made is None) == (NAME == NONE)
    yield made
    if made is not None:
        made.close()


@pytest.fixture
def broker(kind: Kind | None) -> Iterator[Broker | None]:
    made = None if kind is None else kind.start()
    yield made
    if made is not None:
        made.close()


@pytest.mark.parametrize("number", range(TESTS))
def test_a_broker_answers(broker: Broker | None, number: int) -> None:
    if broker is None:
        return
    host, _, port = broker.bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as client:
        client.sendall(struct.pack(">ihhih", 10, API_VERSIONS, 0, NUMBER, -1))
        reply = client.recv(1 << 16)
    assert struct.unpack_from(">ih", reply, 4) == (NUMBER, 0)
