"""The checks of the batches of a Produce: short ones at once, long ones between other work.

A request checks a few batches before anything is awaited, so that most producers wait for nothing.
What is left, and a batch with many records, goes on in slices; a batch that unpacks to much is
unpacked in another thread, one at a time, so that the memory for that is bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from groupd.coordinator.topics.batch_checks import Unpacked, check_batch
from groupd.coordinator.topics.broker_configs import BrokerConfigs
from groupd.coordinator.topics.produce_entry import ProduceEntry
from groupd.coordinator.topics.topic_configs import TopicSettings
from groupd.protocol.errors import ApiError

AT_ONCE_BYTES = 1 << 16
"""Batches of one request that are checked before others have a turn; the first one always is."""


class BatchChecking:
    """Leaves the outcome in the entries: `checked` or `refusal`."""

    def __init__(self, broker: BrokerConfigs) -> None:
        self._broker = broker
        self._unpacking = asyncio.Lock()

    def start(self, entries: Sequence[ProduceEntry], now_ms: int) -> list[ProduceEntry]:
        """Check what does not take long; the entries that are left for `finish`. `now_ms`: wall
        clock, for the timestamps."""
        room = AT_ONCE_BYTES
        for entry in entries:
            assert entry.topic is not None
            assert entry.header is not None
            entry.check = check_batch(
                entry.header,
                entry.asked.records or b"",
                TopicSettings(self._broker.config, entry.topic.configs),
                f"{entry.topic.name}-{entry.asked.partition}",
                self._broker.config.produce_unpacked_max_bytes,
                now_ms,
            )
            if room > 0:
                _step(entry)
            room -= entry.header.size
        return [entry for entry in entries if entry.check is not None]

    async def finish(self, entry: ProduceEntry) -> None:
        """The rest of a check that `start` has begun."""
        while entry.check is not None and entry.unpack is None:
            await asyncio.sleep(0)
            _step(entry)
        if entry.unpack is not None:
            async with self._unpacking:
                loop = asyncio.get_running_loop()
                unpacked = await loop.run_in_executor(None, entry.unpack)
                _step(entry, unpacked)
                while entry.check is not None:
                    await asyncio.sleep(0)
                    _step(entry)


def _step(entry: ProduceEntry, unpacked: Unpacked | None = None) -> None:
    assert entry.check is not None
    entry.unpack = None
    try:
        entry.unpack = entry.check.send(unpacked)
        return
    except StopIteration as done:
        entry.checked = done.value
    except ApiError as error:
        entry.refusal = error
    entry.check = None
