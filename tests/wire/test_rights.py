"""What ACLs mean for a client that is connected: they count from its next request on.

The clients here have not logged in, so all are User:ANONYMOUS. As long as no ACL is for a resource,
everybody may use it; so the client makes the ACLs itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from groupd.coordinator.core.types import Operation, Resource
from groupd.coordinator.security.acls import PatternType, Permission
from tests.support.daemon import Daemon
from tests.support.metrics import total
from tests.support.peer import Peer, make_peer, running
from tests.support.wire_client import NoReply, WireClient

TOPIC = "orders"
TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED = 29, 30, 31
ANYBODY = "User:ANONYMOUS"
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    made = make_peer(tmp_path_factory.mktemp("peer"), topics={TOPIC: 2}, settings=SETTINGS)
    with running(made):
        yield made


@pytest.fixture(autouse=True)
def no_acl_stays(client: WireClient) -> Iterator[None]:
    yield
    drop(client)


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex}"


def put(
    client: WireClient,
    permission: Permission,
    operation: Operation,
    resource: Resource,
    name: str,
    *,
    pattern: PatternType = PatternType.LITERAL,
    principal: str = ANYBODY,
    host: str = "*",
) -> None:
    entry = {
        "resource_type": resource,
        "resource_name": name,
        "resource_pattern_type": pattern,
        "principal": principal,
        "host": host,
        "operation": operation,
        "permission_type": permission,
    }
    (result,) = client.call("CreateAcls", 3, creations=[entry])["results"]
    assert result["error_code"] == 0, result


def drop(client: WireClient, name: str | None = None) -> None:
    """Deletes the ACLs of resources of that name, or all."""
    wanted = {
        "resource_type_filter": Resource.ANY,
        "resource_name_filter": name,
        "pattern_type_filter": PatternType.ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": Operation.ANY,
        "permission_type": Permission.ANY,
    }
    (result,) = client.call("DeleteAcls", 3, filters=[wanted])["filter_results"]
    assert result["error_code"] == 0, result


def settled(client: WireClient, group: str, member: str) -> int:
    """The epoch of a new member that has nothing more to tell."""
    joined = heartbeat(client, group, member, 0)
    assert joined["error_code"] == 0, joined
    epoch: int = joined["member_epoch"]
    heartbeat(client, group, member, epoch, owned=joined["assignment"]["topic_partitions"])
    return epoch


def heartbeat(client: WireClient, group: str, member: str, epoch: int, owned: Any = None) -> Any:
    joins = epoch == 0
    return client.call(
        "ConsumerGroupHeartbeat",
        1,
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        instance_id=None,
        rack_id=None,
        rebalance_timeout=60_000 if joins else -1,
        subscribed_topic_names=[TOPIC] if joins else None,
        subscribed_topic_regex=None,
        server_assignor=None,
        topic_partitions=[] if joins else owned,
    )


def committed(client: WireClient, group: str, member: str, epoch: int) -> int:
    """The error of a commit that is the same each time."""
    reply = client.call(
        "OffsetCommit",
        9,
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member,
        group_instance_id=None,
        topics=[
            {
                "name": TOPIC,
                "partitions": [
                    {
                        "partition_index": 0,
                        "committed_offset": 5,
                        "committed_leader_epoch": -1,
                        "committed_metadata": "",
                    }
                ],
            }
        ],
    )
    code: int = reply["topics"][0]["partitions"][0]["error_code"]
    return code


def visible(client: WireClient, name: str = TOPIC) -> int:
    """The error of a topic in Metadata."""
    reply = client.call(
        "Metadata",
        12,
        topics=[{"topic_id": None, "name": name}],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    code: int = reply["topics"][0]["error_code"]
    return code


def fetchable(client: WireClient) -> int:
    reply = client.call(
        "ListOffsets",
        7,
        replica_id=-1,
        isolation_level=0,
        topics=[{"name": TOPIC, "partitions": [
            {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]}],
    )  # fmt: skip
    code: int = reply["topics"][0]["partitions"][0]["error_code"]
    return code


def test_no_answer_of_before_survives_a_change(peer: Peer, client: WireClient, group: str) -> None:
    """SE-58: another client revokes a right; heartbeats and commits that are the same byte for byte
    are denied, and answered again when the right is back."""
    member = uuid.uuid4().hex
    epoch = settled(client, group, member)
    with WireClient(peer.host, peer.port) as other:
        for _ in range(3):
            for _ in range(3):
                assert heartbeat(client, group, member, epoch)["error_code"] == 0
                assert committed(client, group, member, epoch) == 0
            put(other, Permission.DENY, Operation.READ, Resource.GROUP, group)
            assert heartbeat(client, group, member, epoch)["error_code"] == GROUP_DENIED
            assert committed(client, group, member, epoch) == GROUP_DENIED
            drop(other, group)
            assert heartbeat(client, group, member, epoch)["error_code"] == 0
            put(other, Permission.DENY, Operation.READ, Resource.TOPIC, TOPIC)
            assert committed(client, group, member, epoch) == TOPIC_DENIED
            drop(other, TOPIC)
            assert committed(client, group, member, epoch) == 0


def test_heartbeats_are_answered_from_stored_replies_meanwhile(
    peer: Peer, client: WireClient, group: str
) -> None:
    """Stored replies are used meanwhile: otherwise the test above would show nothing."""
    if not isinstance(peer, Daemon):
        pytest.skip("Kafka keeps no replies")
    member = uuid.uuid4().hex
    epoch = settled(client, group, member)
    for _ in range(3):
        heartbeat(client, group, member, epoch)
    put(client, Permission.ALLOW, Operation.READ, Resource.GROUP, group)
    before = total(peer.admin_url, "groupd_replies_repeated_total")
    for _ in range(10):
        assert heartbeat(client, group, member, epoch)["error_code"] == 0
    assert total(peer.admin_url, "groupd_replies_repeated_total") >= before + 8


def test_an_acl_for_somebody_else(client: WireClient) -> None:
    """SE-50."""
    assert visible(client) == 0
    everything = Permission.ALLOW, Operation.ALL, Resource.TOPIC, TOPIC
    put(client, *everything, principal="User:bob")
    assert visible(client) == TOPIC_DENIED
    assert visible(client, "missing") != TOPIC_DENIED


@pytest.mark.parametrize("principal", ["User:*", ANYBODY])
def test_everybody(client: WireClient, principal: str) -> None:
    """SE-54."""
    put(client, Permission.ALLOW, Operation.READ, Resource.TOPIC, TOPIC, principal=principal)
    assert visible(client) == 0


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1", 0),
        ("10.0.0.1", TOPIC_DENIED),
        ("::ffff:127.0.0.1", 0),
        ("127.0.0.0/8", 0),
        ("10.0.0.0/8", TOPIC_DENIED),
    ],
)
def test_hosts(peer: Peer, client: WireClient, host: str, code: int) -> None:
    """SE-53."""
    if not isinstance(peer, Daemon) and host.startswith("::ffff:"):
        pytest.skip("compared as text there")
    put(client, Permission.ALLOW, Operation.READ, Resource.TOPIC, TOPIC, host=host)
    assert visible(client) == code


def test_denials_win_and_imply_nothing(client: WireClient) -> None:
    """SE-51, SE-52."""
    prefix = TOPIC[:2]
    put(client, Permission.ALLOW, Operation.ALL, Resource.TOPIC, "*")
    prefixed = PatternType.PREFIXED
    put(client, Permission.DENY, Operation.READ, Resource.TOPIC, prefix, pattern=prefixed)
    assert visible(client) == 0
    assert fetchable(client) == 0
    put(client, Permission.DENY, Operation.DESCRIBE, Resource.TOPIC, TOPIC)
    assert visible(client) == TOPIC_DENIED
    assert fetchable(client) == TOPIC_DENIED


def test_the_right_to_change_acls_is_one_of_them(client: WireClient, peer: Peer) -> None:
    put(client, Permission.ALLOW, Operation.ALTER, Resource.CLUSTER, "kafka-cluster")
    put(client, Permission.DENY, Operation.DESCRIBE, Resource.CLUSTER, "kafka-cluster")
    reply = client.call(
        "DescribeAcls",
        3,
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    assert reply["error_code"] == CLUSTER_DENIED
    assert reply["resources"] == []
    # The client may still alter, so that the fixture can clean up.


def test_codes_that_are_not_known_close_the_connection(peer: Peer) -> None:
    """SE-55."""
    with WireClient(peer.host, peer.port) as client, pytest.raises((NoReply, OSError)):
        put(client, Permission.ALLOW, Operation.UNKNOWN, Resource.TOPIC, TOPIC)
