"""Members that need a new target wait a moment for others: what a raw member sees of it
(`groupd.consumer.target.linger.ms`)."""

from __future__ import annotations

from contextlib import closing

import pytest

from groupd.testing import GroupCoordinator
from tests.support.raw_member import RawMember, topic_ids


@pytest.mark.parametrize(
    ("linger_ms", "owned"), [(5, {"orders": [0, 1], "payments": [0]}), (0, {"orders": [0, 1]})]
)
def test_partitions_of_a_regular_expression_come_with_the_first_reply_where_groupd_lingers(
    linger_ms: int, owned: dict[str, list[int]]
) -> None:
    """Without lingering the topics of the expression come later, as in Kafka."""
    config = {"groupd.consumer.target.linger.ms": linger_ms}
    with GroupCoordinator.start({"orders": 2, "payments": 1}, config) as c:
        member = RawMember(c, "billing", "c1", topic_ids(c))
        with closing(member):
            reply = member.join(["orders"], subscribed_topic_regex="pay.*")
    assert reply["error_code"] == 0
    assert member.owned == owned
