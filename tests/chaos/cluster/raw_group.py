"""A KIP-848 group of raw members, which come and go, commit on and on, and tell the ledger all that
they are told: at which epoch they own what, and which node has acknowledged which commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from groupd.coordinator.core.partitioning import partition_for
from tests.chaos.cluster.caller import Address, Caller, now
from tests.chaos.cluster.ledger import Commit, Ledger
from tests.support.kio_entities import Plain

MEMBERS = 4
TURN_S = 0.1
"""Between two turns of the whole group."""
STAY_TURNS = (40, 300)
"""A member leaves after so many turns, and comes back under another name."""
SHARDS = 50

LOADING, UNAVAILABLE, NOT_COORDINATOR = 14, 15, 16
ELSEWHERE = {LOADING, UNAVAILABLE, NOT_COORDINATOR}
UNKNOWN_MEMBER, FENCED_EPOCH, STALE_EPOCH = 25, 110, 113
FENCED = {UNKNOWN_MEMBER, FENCED_EPOCH}
NO_COMMIT = {*ELSEWHERE, *FENCED, STALE_EPOCH, 22, 27, 7}
"""Answers to a commit that clients try again or give up by themselves: also ILLEGAL_GENERATION,
REBALANCE_IN_PROGRESS, REQUEST_TIMED_OUT."""


class Member:
    """One member, from its first heartbeat until it leaves or is fenced."""

    def __init__(self, name: str, stays: int) -> None:
        self.name = name
        self.stays = stays
        self.epoch = 0
        self.owned: list[int] = []
        self.caller = Caller(name)
        self.coordinator: tuple[int, Address] | None = None


class RawGroup(threading.Thread):
    """`nodes`: the addresses of all nodes. `commits`: how many were acknowledged. `topic` has
    `partitions` partitions."""

    def __init__(
        self,
        group: str,
        topic: str,
        topic_id: bytes,
        partitions: int,
        nodes: Callable[[], Sequence[Address]],
        ledger: Ledger,
        random: Random,
    ) -> None:
        super().__init__(name=group, daemon=True)
        self.group = group
        self.commits = 0
        self.shard = partition_for(group, SHARDS)
        self._topic, self._topic_id, self._partitions = topic, topic_id, partitions
        self._nodes, self._ledger, self._random = nodes, ledger, random
        self._offsets = dict.fromkeys(range(partitions), 0)
        self._count = 0
        self._members = [self._new() for _ in range(MEMBERS)]
        self._over = threading.Event()

    def _new(self) -> Member:
        self._count += 1
        return Member(f"{self.group}-m{self._count}", self._random.randint(*STAY_TURNS))

    def run(self) -> None:
        try:
            while not self._over.wait(TURN_S):
                for place, member in enumerate(self._members):
                    member.stays -= 1
                    if member.stays < 0 and self._leave(member):
                        self._members[place] = self._new()
                    else:
                        self._turn(member)
                    member.caller.hear()
        except Exception as error:  # the thread's death must not go unseen
            self._ledger.faults.append(f"{self.group} failed: {error!r}")
            raise
        finally:
            for member in self._members:
                member.caller.close()

    def stop(self) -> None:
        self._over.set()
        self.join(30)

    # One member ---------------------------------------------------------------------------

    def _turn(self, member: Member) -> None:
        if member.coordinator is None:
            self._find(member)
        if member.coordinator is None or not self._beat(member):
            return
        for partition in member.owned:
            if member.coordinator is not None and self._random.random() < 0.5:
                self._commit(member, partition)

    def _find(self, member: Member) -> None:
        def heard(reply: Plain, late: bool) -> None:
            (found,) = reply["coordinators"]
            if found["error_code"] == 0 and not late:
                member.coordinator = found["node_id"], (found["host"], found["port"])

        at = self._random.choice(self._nodes())
        fields = {"key_type": 0, "coordinator_keys": [self.group]}
        member.caller.call(at, "FindCoordinator", 4, fields, heard)

    def _beat(self, member: Member) -> bool:
        """A heartbeat with everything in it; whether the member is one afterwards."""
        assert member.coordinator is not None
        owned = [{"topic_id": self._topic_id, "partitions": member.owned}] if member.owned else ()
        fields = {
            "group_id": self.group,
            "member_id": member.name,
            "member_epoch": member.epoch,
            "rebalance_timeout": 10_000,
            "subscribed_topic_names": [self._topic],
            "topic_partitions": owned,
        }
        heard = partial(self._beaten, member)
        at = member.coordinator[1]
        if not member.caller.call(at, "ConsumerGroupHeartbeat", 1, fields, heard):
            member.coordinator = None
        return member.coordinator is not None and member.epoch > 0

    def _beaten(self, member: Member, reply: Plain, late: bool) -> None:
        if late:
            return  # it has repeated itself since
        code = reply["error_code"]
        if code in ELSEWHERE:
            member.coordinator = None
        elif code in FENCED:
            member.epoch, member.owned = 0, []
        elif code:
            self._ledger.faults.append(f"{member.name}: a heartbeat was answered with {code}")
            member.coordinator = None
        else:
            member.epoch = reply["member_epoch"]
            if reply["assignment"] is not None:
                parts = [one["partitions"] for one in reply["assignment"]["topic_partitions"]]
                member.owned = [number for its in parts for number in its]
            self._ledger.owns(self.group, member.name, member.epoch, self._topic, member.owned)

    def _leave(self, member: Member) -> bool:
        if member.coordinator is None:
            return False
        fields = {"group_id": self.group, "member_id": member.name, "member_epoch": -1}
        left = member.caller.call(
            member.coordinator[1], "ConsumerGroupHeartbeat", 1, fields, lambda *_: None
        )
        if left:
            member.caller.close()
        else:
            member.coordinator = None
        return left

    def _commit(self, member: Member, partition: int) -> None:
        assert member.coordinator is not None
        node, at = member.coordinator
        self._offsets[partition] += 1
        self._count += 1
        offset, token, sent = self._offsets[partition], f"{self.group}:{self._count}", now()

        def heard(reply: Plain, late: bool) -> None:
            (code,) = (
                one["error_code"] for topic in reply["topics"] for one in topic["partitions"]
            )
            if code == 0:
                self.commits += 1
                place = self.group, self._topic, partition
                times = sent, now()
                self._ledger.acknowledged(Commit(*place, offset, *times, token, node, self.shard))
            elif code not in NO_COMMIT:
                self._ledger.faults.append(f"{member.name}: a commit was answered with {code}")
            elif code in ELSEWHERE and not late:
                member.coordinator = None

        place = {
            "partition_index": partition, "committed_offset": offset, "committed_metadata": token,
        }  # fmt: skip
        fields = {
            "group_id": self.group,
            "generation_id_or_member_epoch": member.epoch,
            "member_id": member.name,
            "topics": [{"name": self._topic, "partitions": [place]}],
        }
        if not member.caller.call(at, "OffsetCommit", 9, fields, heard):
            member.coordinator = None
