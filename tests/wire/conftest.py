"""A started broker for the tests of a file, with a client; and brokers that differ in where they
keep their logs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.kio_entities import Plain
from tests.support.peer import Peer, make_peer, peer_kind, running
from tests.support.process import wait_until
from tests.support.wire_client import WireClient
from tests.support.wire_requests import create_topic, fetch_offset, fetched

START_S = 60.0
_numbers = itertools.count()
PLACES = ["sqlite", "memory", "postgres"]


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """groupd, or with GROUPD_PEER=kafka a real broker. A file that needs topics or settings has a
    `peer` of its own; `client` goes there then."""
    with running(make_peer(tmp_path_factory.mktemp("peer"))) as made:
        yield made


@pytest.fixture
def client(peer: Peer) -> Iterator[WireClient]:
    with WireClient(peer.host, peer.port) as made:
        yield made


@pytest.fixture(scope="module", params=PLACES if peer_kind() == "groupd" else ["kafka"])
def place(request: pytest.FixtureRequest) -> str:
    """Where the logs are kept."""
    return str(request.param)


@pytest.fixture(scope="module")
def peers(
    place: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Peer]]:
    """Two started brokers of the same kind. Settings are fixed so that equal requests get equal
    replies."""
    made = []
    try:
        for number in range(2):
            made.append(_make(place, request, tmp_path_factory.mktemp(f"peer-{number}")))
            made[-1].start()
        yield made
        for peer in made:
            peer.stop()
    finally:
        for peer in made:
            peer.close()


SETTINGS = {
    "auto.create.topics.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "consumer_target_linger_ms": "0",
}


def _make(place: str, request: pytest.FixtureRequest, directory: Path) -> Peer:
    if place == "kafka":
        return make_peer(directory, settings=SETTINGS)
    arguments = []
    if place == "memory":
        arguments = ["--store", "memory://"]
    elif place == "postgres":
        server = request.getfixturevalue("postgres")
        arguments = ["--store", server.url(server.new_database())]
    return Daemon(directory, settings=SETTINGS, arguments=arguments)


@pytest.fixture
def name(place: str) -> str:
    """A name for a topic and a group of one test."""
    return f"{place}-{next(_numbers)}"


@pytest.fixture
def leader(peers: list[Peer], name: str) -> Iterator[WireClient]:
    """A client at the node that leads the topics, where there is a topic of that name."""
    peer = peers[0]
    with WireClient(peer.host, peer.port) as made:
        created = made.call(*create_topic(name)[:2], **create_topic(name)[2])
        assert created["topics"][0]["error_code"] == 0
        yield made


@pytest.fixture
def coordinator(leader: WireClient, name: str) -> Iterator[WireClient]:
    """A client at the coordinator of the group of that name."""
    found: list[Plain] = []

    def serves() -> bool:
        found[:] = leader.call("FindCoordinator", 4, key_type=0, coordinator_keys=[name])[
            "coordinators"
        ]
        return found[0]["error_code"] == 0

    wait_until(serves, START_S, "the coordinator")
    with WireClient(found[0]["host"], found[0]["port"]) as made:
        wait_until(
            lambda: fetched(made.call(*fetch_offset(name)[:2], **fetch_offset(name)[2]))[1] == 0,
            START_S,
            "the coordinator to serve",
        )
        yield made
