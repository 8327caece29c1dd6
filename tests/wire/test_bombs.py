"""A daemon and batches that cost more than they weigh, over TCP."""

from __future__ import annotations

import pytest

from tests.attack import bombs
from tests.support.peer import Peer, peer_kind
from tests.support.wire_client import WireClient
from tests.wire.test_produced_records import GOOD, produce, topic

pytestmark = pytest.mark.skipif(peer_kind() == "kafka", reason="Kafka unpacks them")

NONE, MESSAGE_TOO_LARGE, INVALID_RECORD = 0, 10, 87
MB = 1 << 20
BOMB = bombs.many_headers("none", MB - 1000)


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_bombs_are_refused_and_the_partition_goes_on(
    peer: Peer, client: WireClient, codec: str
) -> None:
    name = topic(peer, cleanup_policy="compact")
    for bomb, code in (
        (bombs.zeros(codec, 40 * MB), MESSAGE_TOO_LARGE),
        (bombs.many_headers(codec, 40 * MB), MESSAGE_TOO_LARGE),
        (bombs.claimed_records(codec), INVALID_RECORD),
        (bombs.empty_parts(codec, 500_000), INVALID_RECORD),
    ):
        assert produce(client, name, bomb)["error_code"] == code
    assert produce(client, name, GOOD)["base_offset"] == 0


def test_others_are_answered_while_a_bomb_is_checked(peer: Peer, client: WireClient) -> None:
    """Half a million headers without a codec are long work, and they may stand there."""
    name, short = topic(peer), topic(peer)
    data = [{"name": name, "partition_data": [{"index": 0, "records": BOMB}]}]
    with WireClient(peer.host, peer.port) as other:
        other.send(
            "Produce",
            9,
            {"transactional_id": None, "acks": -1, "timeout": 10_000} | {"topic_data": data},
        )
        for count in range(3):
            assert produce(client, short, GOOD)["base_offset"] == 3 * count
        (answer,) = other.receive()["responses"][0]["partition_responses"]
    assert answer["error_code"] == NONE
