"""A data plane and its cleaner over any store, on a clock that stands still."""

from __future__ import annotations

import asyncio

from groupd.coordinator.cleaning.topic_cleaner import TopicCleaner
from groupd.protocol.messages.data import READ_COMMITTED
from groupd.protocol.records.batch import iter_records
from groupd.protocol.records.batch_builder import encode_batch
from tests.support.fetched import whole_batches
from tests.support.manual_clock import ManualClock
from tests.unit.topics.conftest import LATEST_VERSION, Cluster

DAY_MS = 86_400_000


async def no_sleep(_):
    await asyncio.sleep(0)


class Bench(Cluster):
    """`clean` does what the alarms would begin."""

    def __init__(self, store, **settings):
        super().__init__(store, **settings)
        self.time = ManualClock(wall_ms=self.START_MS)
        self.clock.now = self.time.now
        self.cleaner = None

    async def start(self, **parts):
        await super().start(**parts)
        self.cleaner = TopicCleaner(self.plane, self.store, self.config, self.time, sleep=no_sleep)
        return self

    @property
    def now_ms(self):
        return self.time.now().wall_ms

    async def retain(self):
        await self.cleaner.check_retention()

    async def compact(self):
        await self.cleaner.check_compaction()

    async def put(self, name, *pairs, timestamp=None, **fields):
        """Produces records with keys, in one batch."""
        at_ms = self.now_ms if timestamp is None else timestamp
        answer = await self.produce(name, encode_batch(0, -1, at_ms, pairs, **fields))
        assert answer.error == 0, answer
        return answer.base_offset

    async def transact(self, name, *pairs, producer=7, epoch=0, sequence=0):
        """Produces a batch of an open transaction."""
        records = encode_batch(
            0, -1, self.now_ms, pairs, producer, epoch, sequence, transactional=True
        )
        request = self.produce_request(name, 0, records, transactional_id="tx")
        reply = await self.ask(request, LATEST_VERSION)
        assert reply.topics[0].partitions[0].error == 0, reply

    async def everything(self, name, *, committed=False, max_bytes=1 << 20):
        """(offset, key, value) of all records as a consumer gets them, read to the end."""
        offset, found, skipped = 0, [], set()
        while True:
            answer = await self.fetch(
                name,
                offset,
                isolation_level=READ_COMMITTED if committed else 0,
                partition_max_bytes=max_bytes,
            )
            if answer.error == 1:  # OFFSET_OUT_OF_RANGE: deleted
                offset = self.log(name).start_offset
                continue
            assert answer.error == 0, answer
            if not answer.records:
                return found
            aborted = sorted(answer.aborted or (), key=lambda entry: entry[1])
            for batch in whole_batches(answer.records):
                header = batch.header
                while aborted and aborted[0][1] <= header.last_offset:
                    skipped.add(aborted.pop(0)[0])
                if header.is_control:
                    for record in iter_records(batch):
                        if record.key[3] == 0:
                            skipped.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in skipped):
                    found += [
                        (record.offset, record.key, record.value)
                        for record in iter_records(batch)
                        if record.offset >= offset
                    ]
                offset = header.next_offset

    def log(self, name, partition=0):
        return self.plane.partitions.is_open(self.plane.catalogue.topic(name), partition)

    async def rows(self, name):
        return await self.store.extents(self.log(name).name, 0)
