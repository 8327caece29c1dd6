"""The machine, its shard, the coordinator of a node, and the row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.core.types import Instant, Outcome, RequestContext
from groupd.coordinator.daemon.parts import DaemonParts
from groupd.coordinator.runtime.coordinator_types import CoordinatorTopic, CoordinatorType, KeyType
from groupd.coordinator.runtime.journal import EncodedWrite, measured
from groupd.coordinator.runtime.log_shard import LogShard
from groupd.coordinator.runtime.machine import LoadedMachine, Machine
from groupd.coordinator.runtime.served_shards import ServedShards
from groupd.coordinator.runtime.shard_state import RuntimeParts
from groupd.coordinator.runtime.waiting import Callback
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.records.batch import iter_batches, iter_records
from groupd.storage.log import LogState
from groupd.storage.units import OwnedUnit

SHARDS = 3
KEY_TYPE = 9
KEYS_SINCE = 5
PREFIX = "raffle/"


def name_of(key: str) -> str:
    """Keys are "raffle/" and the name."""
    if not key.startswith(PREFIX):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{key} is no raffle")
    return key.removeprefix(PREFIX)


RAFFLES = CoordinatorType(
    kind="raffles",
    topic=CoordinatorTopic("__raffle_state", b"r" * 16, lambda partition: f"raffle.{partition}"),
    configs={"cleanup.policy": "delete", "retention.ms": "-1"},
    shards_setting="raffle.state.partitions",
    shards=lambda config: SHARDS,
    keys=KeyType(number=KEY_TYPE, since=KEYS_SINCE, brokers_only=True, hashed=name_of),
)


class RaffleMachine(Machine):
    """`sold`: the tickets of each raffle. A record is a raffle and its tickets so far."""

    def __init__(self) -> None:
        self.sold: dict[str, int] = {}

    def handle(self, context: RequestContext, request: str, now: Instant) -> Outcome:
        """Sells a ticket of the raffle `request`; the reply is its number."""
        number = self.sold.get(request, 0) + 1
        return Outcome(cast(Any, [(request, number)]), [(context.token, number)])

    def replay_all(
        self, records: Iterable[Any], offsets: Iterable[int], producer: tuple[int, int] | None
    ) -> None:
        self.sold.update(records)


class RaffleShard(LogShard[RaffleMachine]):
    kind = "raffles"

    def __init__(
        self, number: int, daemon: DaemonParts, parts: RuntimeParts, owned: OwnedUnit | None
    ) -> None:
        name = RAFFLES.topic.log_name(number)
        super().__init__(number, name, RaffleMachine(), daemon.config, parts)
        self._logs = daemon.store
        self._owned = owned

    async def read_log(self, opened: LogState | None) -> LoadedMachine[RaffleMachine]:
        opened = opened or await self._logs.open(self.log_name, self._owned)
        machine, records = RaffleMachine(), []
        for stored in await self._logs.read(self.log_name, 0, 1 << 20):
            for batch in iter_batches(stored.payload):
                records += [_decoded(record.key, record.value) for record in iter_records(batch)]
        machine.replay_all(records, (), None)
        end = opened.next_offset
        return LoadedMachine(machine, Outcome(), len(records), 0, end, opened.owner_epoch)

    def encode(self, records: Sequence[Any]) -> EncodedWrite:
        encoded = [(name.encode(), str(number).encode()) for name, number in records]
        return measured(encoded, [name for name, _ in records])


def _decoded(key: bytes | None, value: bytes | None) -> tuple[str, int]:
    assert key is not None
    assert value is not None
    return key.decode(), int(value)


class RaffleCoordinator:
    """See `daemon.parts.Coordinator`."""

    def __init__(self, daemon: DaemonParts) -> None:
        broker = daemon.broker
        self._daemon = daemon
        self.served: ServedShards[RaffleShard] = ServedShards("shards of raffles", self._make)
        self._parts = RuntimeParts(
            broker.writer, daemon.clock, self.served.wake, broker.ownership.may_answer
        )
        if daemon.alone:
            for number in range(SHARDS):
                self.served.take(number)

    def _make(self, number: int, owned: OwnedUnit | None) -> RaffleShard:
        return RaffleShard(number, self._daemon, self._parts, owned)

    async def load(self) -> None:
        for shard in self.served.by_number.values():
            await shard.load_first()

    async def close(self) -> None:
        for shard in self.served.by_number.values():
            shard.close()
            await shard.closed()

    def buy(self, raffle: str) -> list[int | ErrorCode]:
        """Ask for a ticket: the list that the answer will be in."""
        answers: list[int | ErrorCode] = []
        shard = self.served.by_number.get(partition_for(raffle, SHARDS))
        if shard is None:
            return [ErrorCode.NOT_COORDINATOR]
        waiter = Callback(raffle, lambda request, code, message: code, answers.append)
        self._daemon.broker.waiting.add(waiter)
        shard.handle(RequestContext(waiter, 0, "client"), raffle)
        return answers
