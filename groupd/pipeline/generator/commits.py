"""Generates the commits of a group quickly; nearly all of a log is commits.

Consumers advance as far as production allows and commit in even steps. Records are put together
from pieces that are made once for each partition; only offset and time change. The layout is that
of `protocol.records`; the tests compare the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from struct import Struct

from groupd.pipeline.generator.script import (
    Act,
    EncodedRecord,
    GeneratedWorld,
    GroupPlan,
    Op,
    ScriptStep,
    ScriptTurn,
)
from groupd.protocol.records.batch import TRANSACTIONAL
from groupd.protocol.records.batch_builder import (
    encode_batch,
    encode_marker,
    new_header,
    pack_batch,
)
from groupd.protocol.records.codec import encode_key
from groupd.protocol.records.schema import OffsetCommitKey
from groupd.protocol.records.varints import zigzag

_VALUE = Struct(">hqiBq")  # version, offset, leader epoch, empty metadata, commit time
_VALUE_VERSION, _EMPTY = 4, 1
_TOPIC_ID_FIELD = b"\x01\x00\x10"  # one tagged field: tag 0, 16 bytes
_SHORT_DELTAS = 64
"""Offset deltas below this take one byte."""

_MARKER_DELAY_MS = (40, 400)
_NO_SEQUENCE = -1


class Commits:
    """The commits of one group. An object is used once."""

    def __init__(self, plan: GroupPlan, world: GeneratedWorld, rng: Random) -> None:
        self._plan = plan
        self._world = world
        self._rng = rng
        topics = [world.topics[place.topic] for place in plan.places]
        self._rates = [
            topic.rates[place.partition] for topic, place in zip(topics, plan.places, strict=True)
        ]
        self._bases = [
            topic.bases[place.partition] for topic, place in zip(topics, plan.places, strict=True)
        ]
        self._topic_of = [place.topic for place in plan.places]
        self._topics = {place.topic: world.topics[place.topic] for place in plan.places}
        self._keys = [
            encode_key(OffsetCommitKey(plan.name, topic.name, place.partition))
            for topic, place in zip(topics, plan.places, strict=True)
        ]
        self._tails = [_TOPIC_ID_FIELD + topic.topic_id + b"\x00" for topic in topics]
        value_bytes = _VALUE.size + len(self._tails[0]) - 1
        self._mids = [zigzag(len(key)) + key + zigzag(value_bytes) for key in self._keys]
        # Attributes, time delta and offset delta come before, the header count behind.
        sizes = [3 + len(mid) + value_bytes + 1 for mid in self._mids]
        self._heads = [zigzag(size) + b"\x00\x00" for size in sizes]
        self._long_heads = [zigzag(size + 1) + b"\x00\x00" for size in sizes]
        self._speeds = [rate * plan.capacity * rng.uniform(0.9, 1.2) for rate in self._rates]
        ends = self._ends(world.start_ms, range(len(plan.places)))
        self._positions = [max(0, end - rng.randrange(50)) for end in ends]
        self._committed: set[int] = set()
        self._stuck: set[int] = set()
        self._last_ms: dict[int, int] = {}
        self._interval_ms = 0.0
        self._laps = 0

    def turns(
        self, steps: Sequence[ScriptStep], records: int, *, exactly: bool
    ) -> list[ScriptTurn]:
        """Returns all of the group's writes, those of `steps` included. About `records` of the
        records are commits and markers; with `exactly`, just that many."""
        turns: list[ScriptTurn] = []
        left = records
        ends = [step.at_ms for step in steps[1:]] + [self._world.end_ms]
        yields = [self._records_a_tick(step.owners) for step in steps]
        later = self._later(steps, ends, yields)
        at_ms = float(self._world.start_ms)
        owned: list[int] = []
        owners: Sequence[int] = ()
        for number, (step, until_ms) in enumerate(zip(steps, ends, strict=True)):
            if step.records:
                payload = encode_batch(0, 0, step.at_ms, step.records)
                turns.append(ScriptTurn(step.at_ms, len(step.records), payload))
            if step.op is not None:
                turns += self._act(step.op)
            owners = step.owners
            owned = [place for place, owner in enumerate(owners) if owner >= 0]
            if at_ms < step.at_ms:
                at_ms = step.at_ms + self._interval_ms * self._rng.random() / 2
            while at_ms < until_ms and owned and left > 0:
                # The ticks are spread evenly over all the time in which at least one member reads.
                ahead = yields[number] * (until_ms - at_ms) + later[number]
                self._interval_ms = max(1.0, ahead / left)
                made = self._tick(int(at_ms), owned, owners, left)
                turns += made
                left -= sum(turn.records for turn in made)
                at_ms += self._interval_ms * self._rng.uniform(0.85, 1.15)
        while exactly and left > 0:
            made = self._tick(self._world.end_ms - 1, owned, owners, left)
            turns += made
            left -= sum(turn.records for turn in made)
        return turns

    def _records_a_tick(self, owners: Sequence[int]) -> float:
        owned = sum(owner >= 0 for owner in owners)
        if self._plan.producer_id < 0 or not owned:
            return owned
        return owned / len(set(owners) - {-1}) + 1  # one member a tick, and its marker

    @staticmethod
    def _later(
        steps: Sequence[ScriptStep], ends: Sequence[int], yields: Sequence[float]
    ) -> list[float]:
        """For each step, the number of records after it if there were a tick every millisecond."""
        found = [0.0]
        for step, end_ms, records in zip(steps[:0:-1], ends[:0:-1], yields[:0:-1], strict=True):
            found.append(found[-1] + records * (end_ms - step.at_ms))
        return found[::-1]

    def _ends(self, at_ms: int, places: Sequence[int]) -> list[int]:
        elapsed_s = (at_ms - self._world.start_ms) / 1000
        busy = {number: topic.busy_seconds(elapsed_s) for number, topic in self._topics.items()}
        bases, rates, topic_of = self._bases, self._rates, self._topic_of
        return [bases[place] + int(rates[place] * busy[topic_of[place]]) for place in places]

    def _tick(
        self, at_ms: int, owned: list[int], owners: Sequence[int], room: int
    ) -> list[ScriptTurn]:
        """Every member commits; in a group with transactions one member ends one of its
        transactions."""
        if self._plan.producer_id >= 0 and room > 1:
            present = sorted({owners[place] for place in owned})
            member = present[self._laps % len(present)]
            self._laps += 1
            mine = [place for place in owned if owners[place] == member]
            return self._transaction(at_ms, member, mine[: room - 1])
        return [self._batch(at_ms, owned[:room], 0)]

    def _advance(self, at_ms: int, places: Sequence[int], member: int) -> None:
        seconds = (at_ms - self._last_ms.get(member, self._world.start_ms)) / 1000
        self._last_ms[member] = at_ms
        positions, speeds, stuck = self._positions, self._speeds, self._stuck
        for place, end in zip(places, self._ends(at_ms, places), strict=True):
            position = positions[place]
            if position < end and place not in stuck:
                reach = position + int(speeds[place] * seconds) + 1
                positions[place] = reach if reach < end else end

    def _batch(
        self, at_ms: int, places: Sequence[int], member: int, producer_id: int = -1
    ) -> ScriptTurn:
        """One batch of commits. `member`: the one that commits; 0 if all commit at once."""
        self._advance(at_ms, places, member)
        self._committed.update(places)
        positions, mids, tails = self._positions, self._mids, self._tails
        heads, long_heads, pack = self._heads, self._long_heads, _VALUE.pack
        parts: list[bytes] = []
        for delta, place in enumerate(places):
            parts += (
                heads[place] if delta < _SHORT_DELTAS else long_heads[place],
                zigzag(delta),
                mids[place],
                pack(_VALUE_VERSION, positions[place], 0, _EMPTY, at_ms),
                tails[place],
            )
        header = new_header(0, len(places) - 1, at_ms, at_ms)
        transactional = producer_id >= 0
        header = header._replace(
            record_count=len(places),
            attributes=TRANSACTIONAL if transactional else 0,
            producer_id=producer_id,
            producer_epoch=0 if transactional else -1,
            base_sequence=_NO_SEQUENCE,
        )
        return ScriptTurn(at_ms, len(places), pack_batch(header, b"".join(parts)))

    def _transaction(self, at_ms: int, member: int, places: Sequence[int]) -> list[ScriptTurn]:
        before = [self._positions[place] for place in places]
        known = set(self._committed)
        producer_id = self._plan.producer_id + member
        batch = self._batch(at_ms, places, member, producer_id)
        commit = self._rng.random() >= self._plan.aborts
        if not commit:
            self._committed = known
            for place, position in zip(places, before, strict=True):
                self._positions[place] = position
        # The transaction ends before the next one of this producer begins.
        delay_ms = min(self._rng.randrange(*_MARKER_DELAY_MS), int(self._interval_ms / 2))
        marker_ms = min(at_ms + delay_ms, self._world.end_ms - 1)
        marker = encode_marker(0, 0, marker_ms, producer_id, 0, 0, commit=commit)
        return [batch, ScriptTurn(marker_ms, 1, marker)]

    def _act(self, op: Op) -> list[ScriptTurn]:
        """Carries out an act on committed offsets."""
        places = list(op.places) or list(range(len(self._plan.places)))
        if op.act is Act.STICK:
            self._stuck.update(places)
        elif op.act is Act.FREE:
            self._stuck.difference_update(places)
        elif op.act is Act.FORGET:
            gone = [place for place in places if place in self._committed]
            self._committed.difference_update(gone)
            tombstones: list[EncodedRecord] = [(self._keys[place], None) for place in gone]
            if tombstones:
                payload = encode_batch(0, 0, op.at_ms, tombstones)
                return [ScriptTurn(op.at_ms, len(tombstones), payload)]
        else:
            for place, end in zip(places, self._ends(op.at_ms, places), strict=True):
                back = max(0, self._positions[place] - op.amount)
                self._positions[place] = end if op.act is Act.SKIP else back
            if op.member < 0:
                # Without an owner, a tool commits the new offset itself, independent of production.
                self._stuck.update(places)
                turn = self._batch(op.at_ms, places, 0)
                self._stuck.difference_update(places)
                return [turn]
        return []
