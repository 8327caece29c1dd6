"""The members of `tests.bench.self`: settled is what the coordinator takes for settled."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import chain

import pytest

from groupd.coordinator.config.coordinator_config import CoordinatorConfig, with_settings
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember, MemberState
from groupd.coordinator.daemon.daemon import Daemon
from groupd.coordinator.daemon.options import DaemonOptions
from groupd.storage.memory import MemoryStore
from tests.bench.frames import heartbeat_reply
from tests.bench.self.load import connect, run_all
from tests.bench.self.members import GROUP_SIZE, TOPIC, JoinedMembers, member_names

PARTITIONS, MEMBERS = 25, 2 * GROUP_SIZE


@pytest.fixture
async def daemon() -> AsyncIterator[Daemon]:
    settings = {"group.consumer.assignment.interval.ms": "0"}
    options = DaemonOptions(
        listen=("127.0.0.1", 0),
        admin=None,
        topics=((TOPIC, PARTITIONS),),
        config=with_settings(CoordinatorConfig(), settings),
    )
    made = Daemon(options, store=MemoryStore())
    await made.start()
    yield made
    await made.stop()


def members_of(daemon: Daemon) -> dict[str, ConsumerGroupMember]:
    groups = chain.from_iterable(
        shard.shard.state.groups.values() for shard in daemon.broker.shards
    )
    return {name: member for group in groups for name, member in group.members.items()}


async def test_they_own_everything_once_and_the_coordinator_knows(daemon: Daemon) -> None:
    joined = JoinedMembers(member_names(MEMBERS), 3, lambda _: daemon.kafka_address)
    await joined.join()
    assert any(member.state is not MemberState.STABLE for member in members_of(daemon).values())
    await joined.settle(quiet_s=0)
    known = members_of(daemon)
    assert len(known) == MEMBERS
    for group in sorted({group for group, _ in joined.members}):
        owned = []
        for name in [name for of, name in joined.members if of == group]:
            ((topic_id, partitions),) = joined.assigned(name)
            assert known[name].state is MemberState.STABLE
            assert known[name].assigned.keys() == {topic_id}
            assert known[name].assigned[topic_id].keys() == set(partitions)
            assert not known[name].pending_revocation
            owned += partitions
        assert sorted(owned) == list(range(PARTITIONS))


async def test_their_steady_heartbeats_change_nothing(daemon: Daemon) -> None:
    joined = JoinedMembers(member_names(MEMBERS), 3, lambda _: daemon.kafka_address)
    await joined.join()
    await joined.settle(quiet_s=0)
    epochs = {name: member.member_epoch for name, member in members_of(daemon).items()}
    replies: list[bytes] = []
    frames = [joined.steady(group, name) for group, name in joined.members]
    load = await connect(daemon.kafka_address, iter(frames * 2), 4, replies.append)
    await run_all([load])
    load.close()
    found = [heartbeat_reply(reply) for reply in replies]
    assert len(found) == 2 * MEMBERS
    for reply in found:
        assert (reply.error, reply.assigned) == (0, None)
        assert reply.epoch == epochs[reply.member]
