"""A share group on all parts of a daemon: members, share coordinator and leader."""

from __future__ import annotations

from dataclasses import replace

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.types import UNRESTRICTED, RequestContext
from groupd.coordinator.host import Host
from groupd.coordinator.server.client_session import ClientSession
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.share_fetch import ShareAcknowledgeRequest, ShareFetchRequest
from groupd.protocol.messages.share_group import (
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


async def test_a_share_group_from_join_to_lag():
    config = replace(
        CoordinatorConfig(),
        offsets_topic_num_partitions=1,
        share_state_num_partitions=1,
        share_assignment_interval_ms=0,
    )
    store = MemoryStore()
    await store.start()
    parts = await loaded(config, Host(), PromptClock(), store, [("foo", 1)])
    daemon, plane = Daemon(parts), parts.data_plane
    configs = (AlterConfig("share.auto.offset.reset", 0, "earliest"),)
    await plane.group_overrides.alter(
        AlterResource(RESOURCE_GROUP, GROUP, configs), validate_only=False
    )
    foo = plane.catalogue.topic("foo").topic_id
    produced = await daemon.ask(produce_request("foo", 0, batch(*[b"v"] * 10)))
    assert produced.topics[0].partitions[0].error is OK

    joined = await daemon.ask(ShareGroupHeartbeatRequest(GROUP, "m", 0, None, ("foo",)))
    assert joined.error is OK
    beat = await daemon.ask(ShareGroupHeartbeatRequest(GROUP, "m", joined.member_epoch))
    assert [(one.topic_id, tuple(one.partitions)) for one in beat.assignment] == [(foo, (0,))]

    fetch = ShareFetchRequest(
        GROUP, "m", 0, 500, 1, 1 << 20, 500, 500, topics=asked_topics([(foo, 0)], {})
    )
    assert acquired(await daemon.ask(fetch)) == [(0, 9, 1)]
    acks = asked_topics((), {(foo, 0): [acked(0, 5)]})
    reply = await daemon.ask(ShareAcknowledgeRequest(GROUP, "m", 1, topics=acks))
    assert partitions_of(reply)[0].error is OK
    offsets = await daemon.ask(DescribeShareGroupOffsetsRequest((ShareOffsetsGroup(GROUP, None),)))
    (entry,) = offsets.groups[0].topics[0].partitions
    assert (entry.error, entry.lag) == (ErrorCode.NONE, 4)
    await parts.finish()
    await store.close()
