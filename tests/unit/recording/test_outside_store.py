"""A recording over a store whose operations take time and fail, and its replay."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.daemon.daemon import Daemon
from groupd.coordinator.daemon.options import DaemonOptions
from groupd.coordinator.recording.head import Head
from groupd.coordinator.recording.recorder import Recorder
from groupd.coordinator.recording.replay import RecordingReplay
from groupd.coordinator.recording.replay_world import ReplayWorld, TimerKey
from groupd.storage.log import Append, LogUnavailable
from groupd.storage.memory import MemoryStore
from tests.support.wire_client import WireClient

CONFIG = CoordinatorConfig(offsets_topic_num_partitions=3)


class SlowStore:
    """A store like one on disk: an operation ends some turns of the loop later; every so many
    appends fail, written or not."""

    def __init__(self, seed: int) -> None:
        self.memory = MemoryStore()
        self.failures = 0
        self._random = random.Random(seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.memory, name)

    async def append(self, batches: Sequence[Append]) -> None:
        for _ in range(self._random.randrange(6)):
            await asyncio.sleep(0)
        chance = self._random.random()
        if chance > 0.75:
            await self.memory.append(batches)
        if chance > 0.5:
            if chance <= 0.75 or self.failures < 10:
                self.failures += 1
                raise LogUnavailable("the disk is away")
            return
        await self.memory.append(batches)


async def record(path: Path, seed: int) -> int:
    """Members of three groups that heartbeat and commit; how many appends failed."""
    store = SlowStore(seed)
    recorder = Recorder(path, Head(), bytes_max=1 << 30)
    options = DaemonOptions(
        listen=("127.0.0.1", 0), admin=None, topics=(("orders", 6),), config=CONFIG
    )
    daemon = Daemon(options, store=store, host=recorder)  # type: ignore[arg-type]
    await daemon.start()
    port = daemon.kafka_address[1]
    ended = [asyncio.to_thread(member, port, f"g{n % 3}", f"m{n}") for n in range(6)]
    await asyncio.gather(*ended)
    await daemon.stop()
    await recorder.close()
    return store.failures


def member(port: int, group: str, name: str) -> None:
    """Twelve requests, whatever they are answered."""
    epoch = 0
    with WireClient("127.0.0.1", port, name) as client:
        for turn in range(12):
            if turn % 3 == 2 and epoch > 0:
                part = {"partition_index": 0, "committed_offset": turn}
                said = {
                    "group_id": group,
                    "member_id": name,
                    "generation_id_or_member_epoch": epoch,
                }
                topics = [{"name": "orders", "partitions": [part]}]
                client.call("OffsetCommit", 9, **said, topics=topics)
                continue
            beat: dict[str, Any] = {"group_id": group, "member_id": name, "member_epoch": epoch}
            if epoch == 0:
                beat |= {"rebalance_timeout": 5000, "subscribed_topic_names": ["orders"]}
                beat |= {"topic_partitions": ()}
            reply = client.call("ConsumerGroupHeartbeat", 1, **beat)
            epoch = reply["member_epoch"] if reply["error_code"] == 0 else 0


@pytest.mark.parametrize("seed", range(6))
async def test_replay_goes_through_the_same_failures(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    missed: list[TimerKey] = []
    fire = ReplayWorld.fire

    def watched(world: ReplayWorld, number: int, key: TimerKey) -> None:
        if all(timer.key != key for timer in world._timers.values()):
            missed.append(key)
        fire(world, number, key)

    monkeypatch.setattr(ReplayWorld, "fire", watched)
    failures = await record(tmp_path / "r", seed)
    lines = (tmp_path / "r").read_text().splitlines()
    kinds = [json.loads(line).get("k") for line in lines]
    assert failures > 0
    assert kinds.count("stored") > 20
    run = RecordingReplay(tmp_path / "r")
    assert [str(one) for one in run.differences()] == []
    assert run.compared == kinds.count("reply") > 60
    assert missed == [], "timers that fired in the recording and were not set in the replay"
