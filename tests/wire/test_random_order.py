"""Requests that are sent in one go are answered as the same ones sent one by one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.support.kio_entities import Plain
from tests.support.peer import Peer
from tests.support.process import wait_until
from tests.support.random_requests import (
    Facts,
    RandomRequests,
    comparable,
    join_classic,
    short,
)
from tests.support.wire_client import WireClient
from tests.support.wire_requests import create_topic

SEQUENCES, LENGTH = 12, 60
NODES = ["leader", "classic", "consumer"]
"""The node that a sequence is sent to: the one that leads the topics, or coordinates one of the
groups. They may differ in a cluster."""


@contextmanager
def coordinator(peer: Peer, group: str) -> Iterator[WireClient]:
    """A connection to the coordinator of a group, which serves."""
    with WireClient(peer.host, peer.port) as asked:
        reply = asked.call("FindCoordinator", 4, key_type=0, coordinator_keys=[group])
    (found,) = reply["coordinators"]
    with WireClient(found["host"], found["port"]) as made:
        yield made


def begin(peer: Peer, requests: RandomRequests) -> Facts:
    """What the requests build on, in a broker that has not heard of their names yet."""
    with WireClient(peer.host, peer.port) as client:
        created = client.call("CreateTopics", 7, **create_topic(requests.topic, 2)[2])
        topic_id = created["topics"][0]["topic_id"]
        started: list[Plain] = []

        transactional = {
            "transactional_id": requests.transactional_id,
            "transaction_timeout": 60_000,
        }

        def starts() -> bool:
            started[:] = [client.call("InitProducerId", 4, **transactional)]
            return bool(started[0]["error_code"] == 0)

        wait_until(starts, 60, "the producer")
    producer = (started[0]["producer_id"], started[0]["producer_epoch"])
    with coordinator(peer, requests.classic) as client:
        joined = client.call("JoinGroup", 3, **join_classic(requests.classic, "")[2])
        assert joined["error_code"] == 0, joined
        member = joined["member_id"]
        given = [{"member_id": member, "assignment": b""}]
        synced = client.call("SyncGroup", 3, group_id=requests.classic, member_id=member,
                             generation_id=1, assignments=given)  # fmt: skip
        assert synced["error_code"] == 0, synced
    return Facts(member, producer, {requests.topic: topic_id})


@pytest.mark.parametrize("seed", range(SEQUENCES))
@pytest.mark.parametrize("node", NODES)
def test_replies_do_not_depend_on_whether_they_are_waited_for(
    place: str, peers: list[Peer], node: str, seed: int
) -> None:
    requests = RandomRequests(seed, f"{place}-{node}-{seed}")
    made = requests.take(LENGTH)
    answered = []
    with ExitStack() as stack:
        for peer, at_once in zip(peers, (True, False), strict=True):
            facts = begin(peer, requests)
            if node == "leader":
                client = stack.enter_context(WireClient(peer.host, peer.port))
            else:
                group = {"classic": requests.classic, "consumer": requests.consumer}[node]
                client = stack.enter_context(coordinator(peer, group))
            asked = [make(facts) for make in made]
            replies = (
                client.pipeline(asked)
                if at_once
                else [reply for one in asked for reply in client.pipeline([one])]
            )
            answered.append([comparable(reply, requests.topic, facts) for reply in replies])
    for number, (pipelined, alone) in enumerate(zip(*answered, strict=True)):
        assert pipelined == alone, f"{number}: {short(asked[number], pipelined)}"
