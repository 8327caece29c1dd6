"""Idempotent producers under load. Each has a partition of its own and numbers its records, so the
record at offset n is number n, once; batches of unknown outcome are sent again as clients do."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from random import Random

from groupd.protocol.records.batch import iter_records, verify_crc
from groupd.protocol.records.batch_builder import encode_batch
from tests.crash.wire import (
    Connection,
    Reader,
    data_fetch_body,
    fetched_records,
    produce_body,
    produced,
)
from tests.support.fetched import whole_batches

PRODUCE, FETCH, INIT_PRODUCER_ID = 0, 1, 22
PRODUCERS_TOPIC = "events"
IN_FLIGHT_MAX = 3
PAUSE_S = 0.01
RETRIABLE = {6, 56}
"""NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR: the answers of a daemon that stops."""


class Producer:
    """Produces to one partition. `acknowledged`: how many records are durable for sure; `stored`:
    how many the last check found."""

    def __init__(self, partition: int, seed: int) -> None:
        self.partition = partition
        self.acknowledged = 0
        self.repeated = 0
        self._next = 0
        self.stored = 0
        self._unanswered: deque[tuple[int, int]] = deque()
        self._random = Random(seed)
        self._id: tuple[int, int] | None = None

    async def _init(self, connection: Connection) -> tuple[int, int]:
        if self._id is None:
            reply = await connection.call(INIT_PRODUCER_ID, 0, struct.pack(">hi", -1, 60_000))
            reply.skip(4)
            assert reply.i16() == 0
            self._id = (reply.i64(), reply.i16())
        return self._id

    async def run(self, connection: Connection) -> None:
        """Produces until the connection ends."""
        in_flight: deque[tuple[int, int, asyncio.Future[bytes]]] = deque()
        try:
            await self._init(connection)
            # Batches keep their borders: the broker knows a repeated one by its sequences.
            for first, count in self._unanswered:
                in_flight.append((first, count, self._send(connection, first, count)))
                self.repeated += 1
            while True:
                while len(in_flight) < IN_FLIGHT_MAX:
                    count = self._random.randint(1, 5)
                    self._unanswered.append((self._next, count))
                    sent = self._send(connection, self._next, count)
                    in_flight.append((self._next, count, sent))
                    self._next += count
                first, count, sent = in_flight[0]
                error, base_offset = produced(Reader(await sent))
                if error in RETRIABLE:
                    return
                assert (error, base_offset) == (0, first), (error, base_offset, first)
                in_flight.popleft()
                self._unanswered.popleft()
                self.acknowledged = first + count
                await asyncio.sleep(self._random.uniform(0, PAUSE_S))
        except ConnectionError:
            return

    def _send(self, connection: Connection, first: int, count: int) -> asyncio.Future[bytes]:
        assert self._id is not None
        records = [(None, b"%d" % number) for number in range(first, first + count)]
        batch = encode_batch(0, -1, 1_700_000_000_000, records, *self._id, first)
        return connection.send(PRODUCE, 7, produce_body(PRODUCERS_TOPIC, self.partition, batch))

    async def check(self, connection: Connection) -> None:
        """Checks that every acknowledged record is there, and none twice."""
        offset = self.stored
        while True:
            body = data_fetch_body(PRODUCERS_TOPIC, self.partition, offset)
            reply = fetched_records(await connection.call(FETCH, 4, body))
            error, high_watermark, batches = reply
            assert error == 0
            for batch in whole_batches(batches):
                assert verify_crc(batch.payload)
                for record in iter_records(batch):
                    if record.offset >= offset:
                        assert (record.offset, record.value) == (offset, b"%d" % offset)
                        offset += 1
            if offset >= high_watermark:
                break
        assert self.acknowledged <= offset <= self._next, (self.acknowledged, offset, self._next)
        self.stored = offset
