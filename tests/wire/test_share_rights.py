"""Topics that a member of a share group may not read, over TCP. A real broker is asked too
(GROUPD_PEER=kafka)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.peer import Peer, make_peer, peer_kind, running
from tests.support.process import wait_until
from tests.support.wire_requests import fetch
from tests.wire.share_members import ShareTopic, acked, acquired, entries_of, error_codes, foo

__all__ = ["foo"]

SERVER_ERROR, DENIED, UNKNOWN_TOPIC_ID = -1, 29, 100
RIGHTS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
TOPIC, LITERAL, READ, DENY = 2, 3, 3, 2


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with running(make_peer(tmp_path_factory.mktemp("peer"), settings=RIGHTS)) as made:
        yield made


@pytest.fixture
def bar(foo: ShareTopic) -> bytes:
    """The id of a topic that nobody may read."""
    name = f"{foo.name}-bar"
    topic_id = foo.create(name)
    acl = {
        "resource_type": TOPIC,
        "resource_name": name,
        "resource_pattern_type": LITERAL,
        "principal": "User:*",
        "host": "*",
        "operation": READ,
        "permission_type": DENY,
    }
    assert not error_codes(foo.client.call("CreateAcls", 3, creations=[acl]))
    api, version, fields = fetch(name, 0)
    wait_until(
        lambda: error_codes(foo.client.call(api, version, **fields)) == {DENIED}, 10, "the ACL"
    )
    return topic_id


def test_sg_79_a_topic_that_may_not_be_read(foo: ShareTopic, bar: bytes) -> None:
    foo.produce(10)
    member = foo.member()
    assert acquired(member.fetch(0, [0])) == [(0, 9, 1)]
    found = entries_of(member.late(1, [(bar, 0)]))
    assert {place: one["error_code"] for place, one in found.items()} == {(bar, 0): DENIED}
    found = entries_of(member.late(2, acks={(bar, 0): [acked(0, 1)], 0: [acked(0, 9)]}))
    assert {
        place: (one["error_code"], one["acknowledge_error_code"]) for place, one in found.items()
    } == {(bar, 0): (DENIED, DENIED), (foo.topic_id, 0): (0, 0)}


def test_sg_114_acknowledgements_of_a_topic_that_may_not_be_read(
    foo: ShareTopic, bar: bytes
) -> None:
    foo.produce(10)
    member = foo.member()
    assert acquired(member.fetch(0, [0])) == [(0, 9, 1)]
    found = entries_of(member.acknowledge(1, {(bar, 0): [acked(0, 1)], 0: [acked(0, 9)]}))
    assert {place: one["error_code"] for place, one in found.items()} == {
        (bar, 0): DENIED,
        (foo.topic_id, 0): 0,
    }


def test_sg_79_an_unknown_topic_id_where_there_is_an_authorizer(foo: ShareTopic) -> None:
    """Kafka asks its authorizer about a topic without a name, which fails the whole request
    (docs/compat.md, Share-partitions)."""
    member, place = foo.member(), (b"?" * 16, 0)
    fetched = member.late(0, [place])
    answered = foo.member().acknowledge(1, {place: [acked(0, 1)]})
    if peer_kind() == "kafka":
        assert (fetched["error_code"], answered["error_code"]) == (SERVER_ERROR, SERVER_ERROR)
        return
    for reply in (fetched, answered):
        assert entries_of(reply)[place]["error_code"] == UNKNOWN_TOPIC_ID
