"""The requests about the state of share-partitions, over TCP; all of it holds for a real broker too
(GROUPD_PEER=kafka)."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from tests.support.peer import Peer, make_peer, running
from tests.support.process import wait_until
from tests.support.wire_client import WireClient

UNKNOWN, INVALID, FENCED_LEADER, FENCED_STATE = 3, 42, 74, 124
PARTITIONS = 2
_groups = count()


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    topics = {"t": PARTITIONS}
    with running(make_peer(tmp_path_factory.mktemp("peer"), topics=topics)) as made:
        yield made


class Share:
    """Partition 0 of the topic, as a share group of its own sees it. The methods return an error
    code, or what was read."""

    def __init__(self, client: WireClient) -> None:
        self.client = client
        self.group = f"g:{next(_groups)}"
        (found,) = client.call("Metadata", 12, topics=[{"name": "t"}])["topics"]
        self.topic_id: Any = found["topic_id"]

    def find(self, version: int = 6, key: str | None = None) -> int:
        """The error code of FindCoordinator."""
        topic = urlsafe_b64encode(self.topic_id).decode()[:22]
        keys = [key or f"{self.group}:{topic}:0"]
        reply = self.client.call("FindCoordinator", version, key_type=2, coordinator_keys=keys)
        return int(reply["coordinators"][0]["error_code"])

    def ask(self, api: str, version: int, number: int = 0, **fields: Any) -> Any:
        asked = [{"topic_id": self.topic_id, "partitions": [{"partition": number, **fields}]}]
        reply = self.client.call(api, version, group_id=self.group, topics=asked)
        return reply["results"][0]["partitions"][0]

    def init(self, state_epoch: int, start: int, number: int = 0) -> int:
        fields = {"state_epoch": state_epoch, "start_offset": start}
        return int(self.ask("InitializeShareGroupState", 0, number, **fields)["error_code"])

    def read(self, leader_epoch: int = 0, number: int = 0) -> Any:
        """(state epoch, start offset, batches)"""
        found = self.ask("ReadShareGroupState", 0, number, leader_epoch=leader_epoch)
        if found["error_code"]:
            return found["error_code"]
        names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
        batches = [tuple(one[name] for name in names) for one in found["state_batches"]]
        return found["state_epoch"], found["start_offset"], batches

    def write(
        self,
        *batches: tuple[int, int, int, int],
        start: int = 0,
        state_epoch: int = 1,
        leader_epoch: int = 0,
        complete: int = -1,
        number: int = 0,
    ) -> int:
        names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
        reply = self.ask(
            "WriteShareGroupState",
            1,
            number,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start,
            delivery_complete_count=complete,
            state_batches=[dict(zip(names, one, strict=True)) for one in batches],
        )
        return int(reply["error_code"])

    def delete(self, number: int = 0) -> int:
        return int(self.ask("DeleteShareGroupState", 0, number)["error_code"])

    def summary(self, number: int = 0) -> Any:
        """(state epoch, leader epoch, start offset, delivery complete count)"""
        found = self.ask("ReadShareGroupStateSummary", 1, number, leader_epoch=9)
        names = ("state_epoch", "leader_epoch", "start_offset", "delivery_complete_count")
        return found["error_code"] or tuple(found[name] for name in names)


@pytest.fixture
def share(client: WireClient) -> Share:
    """A share-partition without a state, whose coordinator serves."""
    share = Share(client)

    def served() -> bool:
        # Kafka makes the topic of the log at the first look.
        return share.find() == 0 and share.summary() == (0, 0, -1, -1)

    wait_until(served, 60, "the share coordinator")
    return share


def test_requests_that_ask_for_nothing(share: Share) -> None:
    """docs/spec/share-group.md#SG-56"""
    for group, topics in (
        (share.group, []),
        (share.group, [{"topic_id": share.topic_id, "partitions": []}]),
        ("", [{"topic_id": share.topic_id, "partitions": [{"partition": 0}]}]),
    ):
        reply = share.client.call("DeleteShareGroupState", 0, group_id=group, topics=topics)
        assert reply["results"] == []


def test_initialize(share: Share) -> None:
    """docs/spec/share-group.md#SG-57"""
    assert share.init(2, -1) == 0
    assert share.summary() == (2, 0, -1, -1)
    assert share.init(3, 7) == 0
    assert share.summary() == (3, 0, 7, 0)


def test_initialize_again(share: Share) -> None:
    """docs/spec/share-group.md#SG-58"""
    assert share.init(3, 0) == 0
    assert share.write((0, 4, 2, 1), state_epoch=3) == 0
    assert share.init(2, 0) == FENCED_STATE
    assert share.init(4, 0) == 0
    assert share.read() == (4, 0, [])
    assert share.init(-1, 0) == INVALID
    assert share.init(1, 0, number=-1) == INVALID
    assert share.init(1, 0, number=PARTITIONS) == UNKNOWN
    share.topic_id = b"x" * 16
    assert share.init(1, 0) == UNKNOWN


def test_read(share: Share) -> None:
    """docs/spec/share-group.md#SG-59"""
    assert share.read() == INVALID
    assert share.init(1, 5) == 0
    assert share.read(4) == (1, 5, [])
    assert share.summary() == (1, 4, 5, 0)
    assert share.read(3) == FENCED_LEADER
    assert share.read(-1) == INVALID
    assert share.read(4, number=-1) == INVALID
    assert share.summary(number=-1) == INVALID
    assert share.summary(number=PARTITIONS) == UNKNOWN


def test_write(share: Share) -> None:
    """docs/spec/share-group.md#SG-60"""
    assert share.write() == INVALID
    assert share.init(3, 0) == 0
    share.read(5)
    assert share.write(state_epoch=3, leader_epoch=4) == FENCED_LEADER
    assert share.write(state_epoch=2, leader_epoch=5) == FENCED_STATE
    assert share.write(state_epoch=2, leader_epoch=4) == FENCED_LEADER
    assert share.write(state_epoch=-1, leader_epoch=5) == INVALID
    assert share.write(state_epoch=3, leader_epoch=-1) == INVALID
    assert share.write(state_epoch=9, leader_epoch=9) == 0
    assert share.summary() == (3, 5, 0, 0)


@pytest.mark.parametrize(
    ("writes", "batches"),
    [
        # docs/spec/share-group.md#SG-61
        ([(0, 9, 0, 1), (5, 14, 2, 1)], [(0, 4, 0, 1), (5, 14, 2, 1)]),
        # docs/spec/share-group.md#SG-62
        ([(0, 9, 2, 2), (0, 9, 0, 1)], [(0, 9, 2, 2)]),
        ([(0, 9, 2, 2), (0, 9, 0, 3)], [(0, 9, 0, 3)]),
        ([(0, 9, 2, 1), (2, 3, 0, 2), (10, 11, 2, 1)],
         [(0, 1, 2, 1), (2, 3, 0, 2), (4, 11, 2, 1)]),
    ],
)  # fmt: skip
def test_merging(
    share: Share, writes: list[tuple[int, int, int, int]], batches: list[tuple[int, int, int, int]]
) -> None:
    share.init(1, 0)
    for one in writes:
        assert share.write(one) == 0
    assert share.read() == (1, 0, batches)


def test_the_start_offset(share: Share) -> None:
    """docs/spec/share-group.md#SG-63"""
    share.init(1, 10)
    assert share.write((10, 19, 2, 1), start=10, complete=5) == 0
    assert share.write((5, 11, 4, 2), start=5, complete=9) == 0
    assert share.read() == (1, 10, [(10, 11, 4, 2), (12, 19, 2, 1)])
    assert share.summary() == (1, 0, 10, 5)
    assert share.write(start=-1, complete=9) == 0
    assert share.summary() == (1, 0, 10, 5)
    assert share.write(start=10, complete=3) == 0
    assert share.summary() == (1, 0, 10, 5)
    assert share.write(start=15, complete=3) == 0
    assert share.read() == (1, 15, [(15, 19, 2, 1)])
    assert share.summary() == (1, 0, 15, 3)


def test_delete(share: Share) -> None:
    """docs/spec/share-group.md#SG-64"""
    assert share.delete() == 0
    share.init(3, 7)
    assert share.delete() == 0
    assert share.read() == INVALID
    assert share.summary() == (0, 0, -1, -1)
    assert share.init(1, 0) == 0
    assert share.delete(number=-1) == INVALID
    assert share.delete(number=PARTITIONS) == UNKNOWN


@pytest.mark.parametrize(
    "key", [lambda text: "g:x", lambda text: f":{text}:0", lambda text: f"g:{text}:one"]
)
def test_find_coordinator(share: Share, key: Callable[[str], str]) -> None:
    """docs/spec/share-group.md#SG-66"""
    assert share.find() == 0
    assert share.find(version=5) == INVALID
    topic = urlsafe_b64encode(share.topic_id).decode()[:22]
    assert share.find(key=key(topic)) == INVALID
