"""The honest clients, each with one connection and one request at a time."""

from __future__ import annotations

import asyncio
import struct
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence

from groupd.protocol.records.batch_builder import encode_batch
from tests.attack.frames import HEARTBEAT, JOIN_GROUP, OFFSET_COMMIT, OFFSET_FETCH, produce, request
from tests.attack.victim import Address, Victim
from tests.bench import frames as bench_frames
from tests.crash.wire import Reader
from tests.support.raw import string

TOPIC = "honest"
PARTITIONS = 4
SESSION_MS = 6000
REPLY_TIMEOUT_S = 90.0
OPEN_TIMEOUT_S = 30.0
CLIENT = "honest"

MEMBER_ID_REQUIRED = 79
_SYNC_GROUP = 14

_FENCED = {22: "ILLEGAL_GENERATION", 25: "UNKNOWN_MEMBER_ID", 27: "REBALANCE_IN_PROGRESS"} | {
    110: "FENCED_MEMBER_EPOCH",
    82: "FENCED_INSTANCE_ID",
}


class Fenced(Exception):
    """The member has lost its place in the group."""


class Lost(Exception):
    """An answer that honest clients do not expect, or a connection that was closed."""


class Client(ABC):
    """An honest client, which asks every `every_s`. `name`: its own, and its group's or topic's."""

    every_s = 0.2
    writes = False
    """Whether its answers wait for the store."""

    def __init__(self, victim: Victim, name: str, *, secure: bool = False) -> None:
        self.victim, self.name, self.secure = victim, name, secure
        self._writer: asyncio.StreamWriter | None = None
        self._reader: asyncio.StreamReader | None = None

    async def open(self) -> None:
        """Connects and joins. Raises Lost, OSError, TimeoutError."""
        async with asyncio.timeout(OPEN_TIMEOUT_S):
            await self._connect(await self._address())
            await self._join()

    async def _address(self) -> Address:
        return await asyncio.to_thread(self.victim.coordinator, self.name)

    async def _connect(self, address: Address) -> None:
        """Connects; if it is `secure`, to the listener with TLS of the same node."""
        self._reader, self._writer = await asyncio.open_connection(
            *(self.victim.secure(address) if self.secure else address),
            ssl=self.victim.tls() if self.secure else None,
        )

    @abstractmethod
    async def _join(self) -> None:
        """Becomes a member, if it is to be one."""

    @abstractmethod
    async def ask(self) -> None:
        """One request. Raises Fenced, Lost, OSError, EOFError, TimeoutError."""

    async def check(self) -> list[str]:
        """A line for each thing that was acknowledged and is not there; by default none."""
        return []

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    async def exchange(self, frame: bytes) -> bytes:
        """The reply."""
        assert self._reader is not None
        assert self._writer is not None
        self._writer.write(frame)
        async with asyncio.timeout(REPLY_TIMEOUT_S):
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            return await self._reader.readexactly(size)

    async def _read(self, frame: bytes) -> Reader:
        """The reply behind its correlation id."""
        return Reader((await self.exchange(frame))[4:])


def _verdict(error: int) -> None:
    if error in _FENCED:
        raise Fenced(_FENCED[error])
    if error:
        raise Lost(f"error {error}")


class ClassicMember(Client):
    """The only member of its classic group, with a session of 6 s."""

    async def _join(self) -> None:
        member = ""
        while True:
            body = string(self.name) + struct.pack(">ii", SESSION_MS, 30_000) + string(member)
            body += struct.pack(">h", -1) + string("consumer") + struct.pack(">i", 1)
            body += string("range") + struct.pack(">i", 0)
            reply = await self._read(request(JOIN_GROUP, 5, body, flexible=False, client=CLIENT))
            reply.skip(4)
            error, generation = reply.i16(), reply.i32()
            reply.string(), reply.string()
            member = reply.string()
            if error != MEMBER_ID_REQUIRED:
                break
        if error:
            raise Lost(f"JoinGroup: error {error}")
        place = string(self.name) + struct.pack(">i", generation) + string(member)
        place += struct.pack(">h", -1)
        synced = place + struct.pack(">i", 1) + string(member) + struct.pack(">i", 0)
        reply = await self._read(request(_SYNC_GROUP, 3, synced, flexible=False, client=CLIENT))
        reply.skip(4)
        if error := reply.i16():
            raise Lost(f"SyncGroup: error {error}")
        self._beat = request(HEARTBEAT, 3, place, flexible=False, client=CLIENT)

    async def ask(self) -> None:
        reply = await self._read(self._beat)
        reply.skip(4)
        _verdict(reply.i16())


class ConsumerMember(Client):
    """The only member of its KIP-848 group."""

    async def _join(self) -> None:
        self._member = str(uuid.uuid4())
        reply = await self._heartbeat(0, (TOPIC,), ())
        while reply.assigned is None or not reply.assigned:
            await asyncio.sleep(0.05)
            reply = await self._heartbeat(reply.epoch)
        self._epoch = reply.epoch
        await self._heartbeat(reply.epoch, None, reply.assigned)

    async def _heartbeat(
        self,
        epoch: int,
        topics: tuple[str, ...] | None = None,
        owned: bench_frames.Assigned | None = None,
    ) -> bench_frames.HeartbeatReply:
        asked = bench_frames.consumer_heartbeat(self.name, self._member, epoch, topics, owned)
        reply = bench_frames.heartbeat_reply(await self.exchange(asked))
        _verdict(reply.error)
        return reply

    async def ask(self) -> None:
        await self._heartbeat(self._epoch)


class Committer(Client):
    """Commits ever higher offsets; what was acknowledged must be there."""

    every_s = 0.1
    writes = True

    def __init__(self, victim: Victim, name: str, *, secure: bool = False) -> None:
        super().__init__(victim, name, secure=secure)
        self._sent = self._acknowledged = 0

    async def _join(self) -> None:
        """Does nothing: a committer is no member of its group."""

    async def ask(self) -> None:
        self._sent += 1
        offset = self._sent
        body = string(self.name) + struct.pack(">i", -1) + string("") + struct.pack(">h", -1)
        body += struct.pack(">i", 1) + string(TOPIC) + struct.pack(">i", PARTITIONS)
        for partition in range(PARTITIONS):
            body += struct.pack(">iqih", partition, offset, -1, -1)
        commit = request(OFFSET_COMMIT, 7, body, flexible=False, client=CLIENT)
        reply = await self._read(commit)
        reply.skip(4 + 4)
        reply.string()
        for _ in range(reply.i32()):
            reply.skip(4)
            _verdict(reply.i16())
        self._acknowledged = offset

    async def check(self) -> list[str]:
        """Asks on a connection of its own: the first one may wait for an answer."""
        other = Committer(self.victim, self.name, secure=self.secure)
        await other.open()
        try:
            body = string(self.name) + struct.pack(">i", 1) + string(TOPIC)
            body += struct.pack(f">i{PARTITIONS}i", PARTITIONS, *range(PARTITIONS))
            lowest, highest = self._acknowledged, None
            reply = await other._read(request(OFFSET_FETCH, 5, body, flexible=False, client=CLIENT))
            highest = self._sent
        finally:
            other.close()
        reply.skip(4)
        if not reply.i32():
            # Its shard is on its way to another node.
            raise Lost(f"OffsetFetch: error {reply.i16()}")
        reply.string()
        wrong = []
        for _ in range(reply.i32()):
            partition, offset = reply.i32(), reply.i64()
            reply.skip(4)
            reply.string()
            if (error := reply.i16()) or not lowest <= offset <= highest:
                wrong.append(f"{partition}: {offset}, not {lowest} to {highest}, error {error}")
        return wrong


class Producer(Client):
    """Produces one record at a time, to a topic that nobody else knows."""

    writes = True

    async def _address(self) -> Address:
        if len(self.victim.doors) < 2:
            return self.victim.address
        return await asyncio.to_thread(self.victim.leader, TOPIC)

    async def _join(self) -> None:
        """Does nothing: a producer is no member of a group."""

    async def ask(self) -> None:
        batch = encode_batch(0, -1, 1_700_000_000_000, [(None, b"value")])
        reply = await self._read(produce(TOPIC, batch))
        # Tagged fields, one topic by its name, one partition with its number.
        reply.skip(1 + 1 + 1 + len(TOPIC) + 1 + 4)
        _verdict(reply.i16())


KINDS: Sequence[tuple[type[Client], str]] = (
    (ClassicMember, "classic"),
    (ConsumerMember, "consumer"),
    (Committer, "ledger"),
    (Producer, "producer"),
)


def honest_clients(victim: Victim) -> list[Client]:
    """One of each kind, and another one of each over TLS if the victim has it."""
    made = [kind(victim, f"honest-{name}") for kind, name in KINDS]
    if victim.doors:
        made += [kind(victim, f"honest-{name}-tls", secure=True) for kind, name in KINDS]
    return made
