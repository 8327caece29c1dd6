"""Members of groups under load: an epoch or generation that was told is never taken back."""

from __future__ import annotations

import asyncio
import struct
from random import Random
from typing import Any

from tests.crash.wire import Connection
from tests.support.raw import string

JOIN_GROUP, HEARTBEAT, SYNC_GROUP = 11, 12, 14
TOPIC = "orders"
LEFT = -1
RETRIABLE = {14, 16}
UNKNOWN_MEMBER_ID = 25
FENCED_MEMBER_EPOCH = 110


class ConsumerMember:
    """A KIP-848 member that comes and goes; each change is a new epoch of its group.

    `told`: its epoch by the last reply, LEFT or 0 (never joined); None while a join or leave of
    unknown outcome is the last thing that was said. `unanswered`: how many heartbeats have come to
    nothing since that reply, each of which may have given the member a new epoch. `stored`: the
    epoch of its group that the last check found.
    """

    def __init__(self, group: str, member: str, seed: int) -> None:
        self.group, self.member = group, member
        self.told: int | None = 0
        self.highest = 0
        self.stored = 0
        self.unanswered = 0
        self._random = Random(seed)

    async def run(self, connection: Connection) -> None:
        """Sends heartbeats until the connection ends."""
        try:
            while True:
                await self._beat(connection)
                await asyncio.sleep(self._random.uniform(0, 0.02))
        except ConnectionError:
            return

    async def _beat(self, connection: Connection) -> None:
        epoch = self.told or 0
        fields: dict[str, Any] = {}
        if epoch > 0 and self._random.random() < 0.3:
            epoch = LEFT
        elif epoch <= 0:
            epoch = 0
            fields = {"rebalance_timeout": 60_000, "subscribed_topic_names": [TOPIC]}
        before = self.told
        if epoch <= 0:
            self.told = None
        said = {"group_id": self.group, "member_id": self.member, "member_epoch": epoch}
        # A member that says what it owns may come with its previous epoch: a crash took one reply.
        fields["topic_partitions"] = ()
        self.unanswered += 1
        reply = await connection.ask("ConsumerGroupHeartbeat", 1, {**said, **fields})
        unanswered, self.unanswered = self.unanswered - 1, 0
        if reply["error_code"] in RETRIABLE:
            self.told, self.unanswered = before, unanswered
            return
        if reply["error_code"] == FENCED_MEMBER_EPOCH and unanswered > 1:
            # Two crashes took one reply each: its epoch is older than the previous one. As a client
            # would, it joins again.
            self.told = 0
            return
        assert reply["error_code"] == 0, reply
        self.told = reply["member_epoch"]
        assert self.told is not None
        if self.told > 0:
            assert self.told >= self.highest, f"{self.group}: {self.told} after {self.highest}"
            self.highest = self.told

    async def check(self, connection: Connection) -> None:
        reply = await connection.ask("ConsumerGroupDescribe", 0, {"group_ids": [self.group]})
        (group,) = reply["groups"]
        if self.highest == 0 and group["error_code"] != 0:
            return
        assert group["error_code"] == 0, group
        assert group["group_epoch"] >= self.highest, (group["group_epoch"], self.highest)
        self.stored = group["group_epoch"]
        epochs = {member["member_id"]: member["member_epoch"] for member in group["members"]}
        if self.told == LEFT:
            assert self.member not in epochs, "a member that left is back"
        elif self.told is not None and self.told > 0:
            assert epochs.get(self.member, -1) >= self.told, (epochs, self.told)


class ClassicMember:
    """The only member of a classic group, which joins again and again; each time is a generation.

    `generation`: the last one whose assignment was acknowledged, if nothing came after it.
    """

    def __init__(self, group: str) -> None:
        self.group = group
        self.member = ""
        self.highest = 0
        self.generation: int | None = None

    async def run(self, connection: Connection) -> None:
        """Joins, syncs and sends heartbeats until the connection ends."""
        try:
            while await self._cycle(connection):
                await asyncio.sleep(0.01)
        except ConnectionError:
            return

    async def _cycle(self, connection: Connection) -> bool:
        self.generation = None
        protocol = struct.pack(">i", 1) + string("range") + struct.pack(">i", 1) + b"r"
        body = string(self.group) + struct.pack(">ii", 60_000, 60_000) + string(self.member)
        reply = await connection.call(JOIN_GROUP, 2, body + string("consumer") + protocol)
        reply.skip(4)
        error, generation = reply.i16(), reply.i32()
        if error in RETRIABLE:
            return False
        if error == UNKNOWN_MEMBER_ID:
            # A member is durable with its first assignment, as in Kafka.
            assert self.highest == 0, f"{self.group}: {self.member} is forgotten"
            self.member = ""
            return True
        assert error == 0, error
        assert generation > self.highest, f"{self.group}: {generation} after {self.highest}"
        reply.string()
        reply.string()
        self.member = reply.string()
        body = string(self.group) + struct.pack(">i", generation) + string(self.member)
        given = struct.pack(">i", 1) + string(self.member) + struct.pack(">i", 1) + b"a"
        reply = await connection.call(SYNC_GROUP, 1, body + given)
        reply.skip(4)
        if (error := reply.i16()) in RETRIABLE:
            return False
        assert error == 0, error
        self.highest = self.generation = generation
        return True

    async def check(self, connection: Connection) -> None:
        if self.generation is None:
            return
        body = string(self.group) + struct.pack(">i", self.generation) + string(self.member)
        reply = await connection.call(HEARTBEAT, 1, body)
        reply.skip(4)
        assert reply.i16() == 0, f"{self.group}: generation {self.generation} is not known"
