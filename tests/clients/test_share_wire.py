"""What share consumers send, seen between them and the broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.share import CLIENTS, ShareGroup, ShareWay, accept_all
from tests.clients.share_wire import ACKNOWLEDGE, FETCH, HEARTBEAT, ShareWire
from tests.support.admin import create_topics, produce
from tests.support.daemon import Daemon
from tests.support.kafka_broker import KafkaBroker
from tests.support.peer import FAST_SETTINGS, Peer, peer_kind, running
from tests.support.process import wait_until

FENCED_MEMBER_EPOCH, SHARE_SESSION_NOT_FOUND = 110, 122
NEWEST = {"java": 2, "confluent": 1, "franz": 2}
"""The version of ShareFetch and ShareAcknowledge that each client has."""
CHANGE_S = 20.0

pytestmark = pytest.mark.skipif(peer_kind() == "cluster", reason="one proxy for one broker")
every_client = pytest.mark.parametrize("client", CLIENTS)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShareWire]:
    """A proxy, which the broker behind it tells clients to connect to."""
    wire = ShareWire()
    directory, told = tmp_path_factory.mktemp("behind"), f"127.0.0.1:{wire.port}"
    peer: Peer
    if peer_kind() == "kafka":
        listeners = {"advertised.listeners": f"PLAINTEXT://{told}"}
        peer = KafkaBroker(directory, settings=FAST_SETTINGS | listeners)
    else:
        peer = Daemon(directory, settings=FAST_SETTINGS, arguments=["--advertised", told])
    wire.target = peer.port
    try:
        with running(peer):
            yield wire
    finally:
        wire.close()


@pytest.fixture
def group(broker: ShareWire, unique: str, tmp_path: Path) -> Iterator[ShareGroup]:
    made = ShareGroup(f"127.0.0.1:{broker.port}", f"share-{unique}", tmp_path)
    broker.asked.clear()
    broker.errors.clear()
    yield made
    made.close()


@every_client
def test_versions_and_the_way_to_leave(
    broker: ShareWire, group: ShareGroup, unique: str, client: str
) -> None:
    """docs/spec/share-group.md#SG-124, of all clients."""
    counts = {f"t-{unique}": 2}
    create_topics(group.bootstrap, counts)
    member = group.member(ShareWay(client), counts)
    accept_all(member, produce(group.bootstrap, counts, 20))
    member.close()
    assert {one.version for one in broker.of(HEARTBEAT)} == {1}
    both = broker.of(FETCH) + broker.of(ACKNOWLEDGE)
    assert {one.version for one in both} == {NEWEST[client]}
    assert len({one.member for one in broker.asked}) == 1
    # The two go over different connections, so either may come first.
    assert {(one.key, one.epoch) for one in broker.asked[-2:]} == {
        (ACKNOWLEDGE, -1),
        (HEARTBEAT, -1),
    }
    assert broker.errors == []


@every_client
def test_a_fenced_member_joins_again_and_keeps_its_session(
    broker: ShareWire, group: ShareGroup, unique: str, client: str
) -> None:
    """docs/spec/share-group.md#SG-123, FENCED_MEMBER_EPOCH to a heartbeat."""
    counts = {f"t-{unique}": 1}
    create_topics(group.bootstrap, counts)
    member = group.member(ShareWay(client), counts)
    accept_all(member, produce(group.bootstrap, counts, 10))
    before = len(broker.asked)
    broker.answer_next(HEARTBEAT, FENCED_MEMBER_EPOCH)
    wait_until(
        lambda: any(one.epoch == 0 for one in broker.of(HEARTBEAT, before)),
        CHANGE_S,
        "a member that joins again",
        member.process.output,
    )
    accept_all(member, produce(group.bootstrap, counts, 10))
    assert len({one.member for one in broker.asked}) == 1, "the member keeps its id"
    assert broker.errors == []
    member.close()


@every_client
def test_a_lost_session_is_opened_again(
    broker: ShareWire, group: ShareGroup, unique: str, client: str
) -> None:
    """docs/spec/share-group.md#SG-123, SHARE_SESSION_NOT_FOUND to a ShareFetch."""
    counts = {f"t-{unique}": 1}
    create_topics(group.bootstrap, counts)
    member = group.member(ShareWay(client), counts)
    accept_all(member, produce(group.bootstrap, counts, 10))
    before = len(broker.asked)
    broker.answer_next(FETCH, SHARE_SESSION_NOT_FOUND)
    member.poll()
    opened = broker.of(FETCH, before)
    assert any(one.epoch == 0 for one in opened), opened
    accept_all(member, produce(group.bootstrap, counts, 10))
    assert broker.errors == []
    member.close()
