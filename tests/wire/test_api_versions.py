"""Who a client says it is and whom it means to reach, in ApiVersions. Holds for a real broker too
(GROUPD_PEER=kafka)."""

from __future__ import annotations

import struct

import pytest

from tests.support.peer import Peer
from tests.support.raw import API_VERSIONS, RawConnection, frame, request
from tests.support.wire_client import WireClient

NONE, UNSUPPORTED_VERSION, INVALID_REQUEST, REBOOTSTRAP_REQUIRED = 0, 35, 42, 129
ELSEWHERE = "AAAAAAAAAAAAAAAAAAAAAA"


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize(
    ("name", "software_version", "code"),
    [
        ("apache-kafka-java", "4.4.0", NONE),
        ("a", "1", NONE),
        ("confluent-kafka-python", "2.16.1-rdkafka-2.16.1", NONE),
        ("a..-b", "1-.-2", NONE),
        ("", "1", INVALID_REQUEST),
        ("a", "", INVALID_REQUEST),
        ("-a", "1", INVALID_REQUEST),
        ("a.", "1", INVALID_REQUEST),
        ("a b", "1", INVALID_REQUEST),
        ("a", "1+2", INVALID_REQUEST),
        ("a_b", "1", INVALID_REQUEST),
        ("\u00e4", "1", INVALID_REQUEST),
        ("a\n", "1", INVALID_REQUEST),
    ],
)
def test_software_has_a_name_and_a_version(
    peer: Peer, version: int, name: str, software_version: str, code: int
) -> None:
    """A client that is refused may try again."""
    with WireClient(peer.host, peer.port) as client:
        for _ in range(2):
            reply = client.call(
                "ApiVersions",
                version,
                client_software_name=name,
                client_software_version=software_version,
            )
            assert (reply["error_code"], bool(reply["api_keys"])) == (code, code == NONE)
        again = client.call(
            "ApiVersions", version, client_software_name="a", client_software_version="1"
        )
        assert again["error_code"] == NONE


def ask(port: int, cluster_id: str | None, node_id: int, name: bytes = b"me") -> int:
    """The code of ApiVersions 5."""
    cluster = b"\x00" if cluster_id is None else bytes([len(cluster_id) + 1]) + cluster_id.encode()
    software = bytes([len(name) + 1]) + name + b"\x021"
    body = b"\x00" + software + cluster + struct.pack(">i", node_id) + b"\x00"
    with RawConnection(port) as connection:
        connection.send(frame(request(API_VERSIONS, 5, 1, body)))
        correlation, reply = connection.reply()
        assert correlation == 1
        code: int = struct.unpack_from(">h", reply)[0]
        assert connection.works(), "it may ask again"
    return code


def test_version_5_asks_whether_it_is_the_right_node(peer: Peer) -> None:
    """KIP-1242."""
    cluster_id, ports = identity_of(peer)
    for node, port in ports.items():
        assert ask(port, None, -1) == NONE
        assert ask(port, cluster_id, node) == NONE
        assert ask(port, cluster_id, node + 1) == REBOOTSTRAP_REQUIRED
        assert ask(port, ELSEWHERE, node) == REBOOTSTRAP_REQUIRED
        assert ask(port, "", node) == REBOOTSTRAP_REQUIRED
        assert ask(port, cluster_id, -1) == INVALID_REQUEST
        assert ask(port, None, node) == INVALID_REQUEST
        assert ask(port, ELSEWHERE, node, b"-") == INVALID_REQUEST


def identity_of(peer: Peer) -> tuple[str, dict[int, int]]:
    """The cluster's id, and the port of each node."""
    with WireClient(peer.host, peer.port) as client:
        reply = client.call("Metadata", 9, topics=[], allow_auto_topic_creation=False)
    return reply["cluster_id"], {one["node_id"]: one["port"] for one in reply["brokers"]}


def test_a_version_that_nobody_knows_is_answered_with_the_range(peer: Peer) -> None:
    with RawConnection(peer.port) as connection:
        connection.send(frame(request(API_VERSIONS, 6, 1, b"\x00\x00")))
        _, reply = connection.reply()
        assert struct.unpack(">hihhh", reply) == (UNSUPPORTED_VERSION, 1, API_VERSIONS, 0, 5)
