"""The state of share-partitions is there after a restart, in every store."""

from __future__ import annotations

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.daemon.parts import DaemonParts
from groupd.coordinator.host import Host
from groupd.coordinator.persister import entries_of
from groupd.coordinator.runtime.clock import SystemClock
from groupd.protocol.messages.share_state import (
    AskedShareState,
    InitializedShareState,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ReadShareState,
    ShareStateBatch,
    ShareStateResult,
    ShareStateTopic,
    WriteShareGroupStateRequest,
    WrittenShareState,
)
from tests.storage.conftest import Disk
from tests.support.parts import loaded

BATCHES = (ShareStateBatch(0, 4, 2, 1), ShareStateBatch(6, 6, 0, 2))


async def test_the_state_survives_a_restart(disk: Disk) -> None:
    config = CoordinatorConfig(share_state_num_partitions=4)
    parts = await loaded(config, Host(), SystemClock(), disk.store, [("t", 3)])
    topic = parts.data_plane.catalogue.topic("t")
    assert topic is not None

    async def ask(parts: DaemonParts, request: type, *asked: object) -> list[object]:
        topics = [ShareStateTopic(topic.topic_id, asked)]
        return entries_of(await parts.persister.ask(request("g", topics)))

    numbers = range(3)
    good = [ShareStateResult(number) for number in numbers]
    made = [InitializedShareState(number, 1, -1) for number in numbers]
    assert await ask(parts, InitializeShareGroupStateRequest, *made) == good
    written = [WrittenShareState(number, 1, 0, 0, 5, BATCHES) for number in numbers]
    assert await ask(parts, WriteShareGroupStateRequest, *written) == good
    await parts.finish()

    parts = await loaded(config, Host(), SystemClock(), await disk.reopen())
    read = await ask(
        parts, ReadShareGroupStateRequest, *[AskedShareState(number, 3) for number in numbers]
    )
    assert read == [
        ReadShareState(number, state_epoch=1, start_offset=0, batches=BATCHES) for number in numbers
    ]
    for shard in parts.share_state.served.by_number.values():
        await shard.prune()
    await parts.finish()
