"""Share sessions at their node (docs/spec/share-group.md#SG-67 to SG-83)."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from tests.unit.share_partitions.share_world import LOCK_MS, OK, acked, acquired, partitions_of


async def test_the_first_reply_names_all_partitions_and_later_ones_only_news(world, foo):
    """SG-67"""
    member = world.connect()
    waiter = member.ask_fetch(0, (foo, 0), (foo, 1), (foo, 2))
    await world.settle()
    assert waiter.reply is None
    world.advance(500)
    await world.settle()
    assert sorted(partitions_of(waiter.reply)) == [0, 1, 2]
    assert waiter.reply.lock_timeout_ms == LOCK_MS
    waiter = member.ask_fetch(1)
    world.advance(500)
    await world.settle()
    assert partitions_of(waiter.reply) == {}
