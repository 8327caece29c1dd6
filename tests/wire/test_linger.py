"""Members that need a new target wait a moment for others: what a raw member sees of it
(`consumer_target_linger_ms`). Without it holds for a real broker, too (GROUPD_PEER=kafka).
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.support.peer import make_peer, peer_kind, running
from tests.support.process import wait_until
from tests.support.raw_member import RawMember, topic_ids

TOPICS = {"orders": 2, "payments": 1}
BOTH, NAMED = {"orders": [0, 1], "payments": [0]}, {"orders": [0, 1]}
CASES = [("5", BOTH), ("0", NAMED)] if peer_kind() == "groupd" else [("0", NAMED)]


@pytest.mark.parametrize(("linger_ms", "owned"), CASES)
def test_partitions_of_a_regular_expression_come_with_the_first_reply_where_groupd_lingers(
    tmp_path: Path, linger_ms: str, owned: dict[str, list[int]]
) -> None:
    """Without lingering the topics of the expression come later, as in Kafka."""
    settings = {"consumer_target_linger_ms": linger_ms}
    with running(make_peer(tmp_path, topics=TOPICS, settings=settings)) as peer:
        wait_until(lambda: topic_ids(peer).keys() >= TOPICS.keys(), 30, "the topics")
        with closing(RawMember(peer, "warm-up", "c1", topic_ids(peer))) as first:
            wait_until(lambda: first.join(["orders"])["error_code"] == 0, 60, "the coordinator")
            wait_until(lambda: first.acknowledge() and first.owned == NAMED, 30, "the topic")
        with closing(RawMember(peer, "billing", "c1", topic_ids(peer))) as member:
            reply = member.join(["orders"], subscribed_topic_regex="pay.*")
            assert reply["error_code"] == 0
            assert member.owned == owned
            wait_until(lambda: member.acknowledge() and member.owned == BOTH, 30, "the rest")
