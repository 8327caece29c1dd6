"""Brokers that differ in where they keep their logs and in how many processes they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.peer import Peer, make_peer, peer_kind

PLACES = ["sqlite", "memory", "postgres", "workers"]


@pytest.fixture(scope="module", params=PLACES if peer_kind() == "groupd" else ["kafka"])
def place(request: pytest.FixtureRequest) -> str:
    """Where the logs are kept: a store, or "workers" for SQLite behind two of them."""
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
    "groupd.consumer.target.linger.ms": "0",
    "groupd.consumer.assignor.order": "canonical",
}


def _make(place: str, request: pytest.FixtureRequest, directory: Path) -> Peer:
    if place == "kafka":
        return make_peer(directory, settings=SETTINGS)
    arguments, workers = [], 1
    if place == "memory":
        arguments = ["--store", "memory://"]
    elif place == "postgres":
        server = request.getfixturevalue("postgres")
        arguments = ["--store", server.url(server.new_database())]
    elif place == "workers":
        workers = 2
    return Daemon(directory, settings=SETTINGS, arguments=arguments, workers=workers)
