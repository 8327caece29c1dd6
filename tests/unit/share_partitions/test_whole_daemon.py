"""A share group on all parts of a daemon: members, share coordinator and leader."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.types import UNRESTRICTED, RequestContext
from groupd.coordinator.host import Host
from groupd.coordinator.server.client_session import ClientSession
from groupd.protocol.messages.share_fetch import (
    RELEASE,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
)
from groupd.protocol.messages.share_group import (
    AlteredShareTopic,
    AlterShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
    ShareGroupHeartbeatRequest,
    ShareOffsetsGroup,
)
from groupd.protocol.messages.topics import RESOURCE_GROUP, AlterConfig, AlterResource
from groupd.storage.memory import MemoryStore
from tests.support.parts import loaded
from tests.support.prompt_clock import PromptClock
from tests.unit.runtime.harness import settle
from tests.unit.share_partitions.share_world import (
    APIS,
    GROUP,
    OK,
    MemberWaiter,
    acked,
    acquired,
    asked_topics,
    partitions_of,
)
from tests.unit.topics.conftest import batch, produce_request


class Daemon:
    def __init__(self, parts):
        self.parts = parts
        self.session = ClientSession("", UNRESTRICTED)

    async def ask(self, request):
        api = APIS[type(request)]
        waiter = MemberWaiter(request, api, self.session)
        self.parts.broker.submit(RequestContext(waiter, api.max_version, "client"), request)
        for _ in range(5):
            await settle()
        assert waiter.reply is not None, request
        return waiter.reply

    @property
    def foo(self):
        return self.parts.data_plane.catalogue.topic("foo").topic_id

    async def join(self, member):
        reply = await self.ask(ShareGroupHeartbeatRequest(GROUP, member, 0, None, ("foo",)))
        assert reply.error is OK
        return reply

    async def fetch(self, member):
        topics = asked_topics([(self.foo, 0)], {})
        return await self.ask(
            ShareFetchRequest(GROUP, member, 0, 500, 1, 1 << 20, 500, 500, topics=topics)
        )

    async def acknowledge(self, member, *batches, epoch=1):
        topics = asked_topics((), {(self.foo, 0): batches})
        reply = await self.ask(ShareAcknowledgeRequest(GROUP, member, epoch, topics=topics))
        return partitions_of(reply)[0].error


@pytest.fixture
async def daemon():
    """A daemon with ten records in `foo`, which the group reads from the beginning."""
    config = replace(
        CoordinatorConfig(),
        offsets_topic_num_partitions=1,
        share_state_num_partitions=1,
        share_assignment_interval_ms=0,
    )
    store = MemoryStore()
    await store.start()
    parts = await loaded(config, Host(), PromptClock(), store, [("foo", 1)])
    configs = (AlterConfig("share.auto.offset.reset", 0, "earliest"),)
    asked = AlterResource(RESOURCE_GROUP, GROUP, configs)
    await parts.data_plane.group_overrides.alter(asked, validate_only=False)
    made = Daemon(parts)
    produced = await made.ask(produce_request("foo", 0, batch(*[b"v"] * 10)))
    assert produced.topics[0].partitions[0].error is OK
    yield made
    await parts.finish()
    await store.close()


async def test_a_share_group_from_join_to_lag(daemon):
    foo = daemon.foo
    joined = await daemon.join("m")
    beat = await daemon.ask(ShareGroupHeartbeatRequest(GROUP, "m", joined.member_epoch))
    assert [(one.topic_id, tuple(one.partitions)) for one in beat.assignment] == [(foo, (0,))]
    assert acquired(await daemon.fetch("m")) == [(0, 9, 1)]
    assert await daemon.acknowledge("m", acked(0, 5)) is OK
    offsets = await daemon.ask(DescribeShareGroupOffsetsRequest((ShareOffsetsGroup(GROUP, None),)))
    (entry,) = offsets.groups[0].topics[0].partitions
    assert (entry.error, entry.lag) == (OK, 4)


async def test_leaving_the_group_releases_nothing(daemon):
    """SG-36"""
    await daemon.join("m")
    assert acquired(await daemon.fetch("m")) == [(0, 9, 1)]
    await daemon.ask(ShareGroupHeartbeatRequest(GROUP, "m", -1))
    assert await daemon.acknowledge("m", acked(0, 4)) is OK
    daemon.session.end()
    daemon.session = ClientSession("", UNRESTRICTED)
    assert acquired(await daemon.fetch("m2")) == [(5, 9, 2)]


async def test_the_start_offset_is_altered(daemon):
    """SG-51"""
    await daemon.join("m")
    assert acquired(await daemon.fetch("m")) == [(0, 9, 1)]
    assert await daemon.acknowledge("m", acked(0, 9, RELEASE)) is OK
    await daemon.ask(ShareGroupHeartbeatRequest(GROUP, "m", -1))
    reply = await daemon.ask(
        AlterShareGroupOffsetsRequest(GROUP, (AlteredShareTopic("foo", ((0, 4),)),))
    )
    assert reply.error is OK
    assert await daemon.acknowledge("m", acked(0, 9), epoch=2) is not OK
    daemon.session.end()
    daemon.session = ClientSession("", UNRESTRICTED)
    assert acquired(await daemon.fetch("m2")) == [(4, 9, 1)]
