"""POST `/groups/{id}/offsets/reset` and `/groups/{id}/offsets/restore`: orders of an operator at
the console. Without `apply` they show what would be done. The same order with `apply`, which
repeats what was shown, does exactly that."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeVar

from msgspec import DecodeError, Struct, json

from groupd.coordinator.admin.groups import refused_moves, served_shard
from groupd.coordinator.admin.http_messages import HttpReply, HttpRequest, as_json, refusal, text
from groupd.coordinator.admin.pages import plain
from groupd.coordinator.core.slices import Pace, Steps, mapped_in_steps
from groupd.coordinator.moves.mover import (
    CannotMove,
    PlannedMove,
    ShownOffsets,
    planned_reset,
    planned_restore,
    write_reset,
    write_restore,
)
from groupd.coordinator.moves.own_broker import (
    Operator,
    OwnBroker,
    OwnGroup,
    context_of,
)
from groupd.coordinator.moves.plan import MoveStep, ResetTarget, WantedReset
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.long_work import LongWork
from groupd.protocol.messages import TopicPartition

_OFFSET_MAX = 2**63 - 1

ShownRows = dict[str, list[tuple[int, int | None, int | None]]]
"""By topic: the partition, its committed offset, and the offset that it would get; null: no
offset."""


class ResetOrder(Struct, frozen=True):
    """The body of a reset. `value`: the offset, the number of records to shift by, or a time in ISO
    8601. `partitions`: by topic; null: all that have an offset. `apply`: write these offsets, which
    were shown; `to`, `value` and `partitions` do not matter then."""

    to: Literal["earliest", "latest", "time", "offset", "shift"]
    value: int | str | None = None
    partitions: dict[str, list[int]] | None = None
    apply: ShownRows | None = None


class RestoreOrder(Struct, frozen=True):
    """The body of a restore. `at`: a time in ISO 8601. `apply`: write these offsets, which were
    shown."""

    at: str
    delete_new: bool = False
    apply: ShownRows | None = None


Order = TypeVar("Order", ResetOrder, RestoreOrder)


class OffsetPages:
    """The actions on the offsets of groups. `work` makes long answers."""

    def __init__(self, broker: Broker, own: OwnBroker, work: LongWork) -> None:
        self._broker = broker
        self._own = own
        self._work = work

    async def act(self, request: HttpRequest) -> HttpReply:
        with refused_moves():
            match request.path:
                case ("groups", group_id, "offsets", "reset"):
                    return await self._reset(request, group_id)
                case ("groups", group_id, "offsets", "restore"):
                    return await self._restore(request, group_id)
                case _:
                    return text("not found", 404)

    async def _reset(self, request: HttpRequest, group_id: str) -> HttpReply:
        order = _decoded(request.body, ResetOrder)
        if order.apply is not None:
            shown = await self._work.run(_shown(order.apply))
            if None in [to for _, to in shown.values()]:
                raise refusal("a reset leaves no partition without an offset")
            await write_reset(self._group(request, group_id), shown)
            return _written(shown)
        wanted, group = _wanted(order), self._group(request, group_id)
        plan = await planned_reset(group, wanted, group.partitions_of(order.partitions))
        if not plan.steps:
            raise CannotMove(f"group {group_id} has nothing committed: choose partitions")
        return await self._planned(plan)

    async def _restore(self, request: HttpRequest, group_id: str) -> HttpReply:
        order = _decoded(request.body, RestoreOrder)
        at_ms, new = _time_ms(order.at), order.delete_new
        shown = None if order.apply is None else await self._work.run(_shown(order.apply))
        group = self._group(request, group_id)
        if shown is None:
            return await self._planned(await planned_restore(group, at_ms, delete_new=new))
        await write_restore(group, at_ms, shown, delete_new=new)
        return _written(shown)

    def _group(self, request: HttpRequest, group_id: str) -> OwnGroup:
        """The group that the request is about. Raises Refusal."""
        by = context_of(Operator(request.caller), request.address, None)
        return self._own.group(served_shard(self._broker, group_id), group_id, by)

    async def _planned(self, move: PlannedMove) -> HttpReply:
        rows = await self._work.run(mapped_in_steps(_row, move.steps))
        return await self._work.run(plain({"rows": rows, "refusal": move.refusal}))


def _row(step: MoveStep) -> dict[str, Any]:
    return {
        **step.row,
        "records": _skipped(step),
        "warning": step.warning,
        "writes": step.is_write,
        "starts_anew": step.starts_anew,
    }


def _skipped(step: MoveStep) -> int | None:
    """How many records are skipped; negative: how many are read again; None: not known."""
    if step.starts_anew or step.before is None or step.after is None:
        return None
    if step.before == step.after:
        return 0
    return step.records if step.records is None or step.after > step.before else -step.records


def _written(shown: ShownOffsets) -> HttpReply:
    return as_json({"written": len(shown)})


def _shown(rows: ShownRows) -> Steps[ShownOffsets]:
    """The shown offsets by topic and partition. Raises Refusal."""
    pace = Pace()
    shown: dict[TopicPartition, tuple[int | None, int | None]] = {}
    for topic, some in rows.items():
        for partition, before, after in some:
            if pace.due():
                yield
            if (topic, partition) in shown:
                raise refusal(f"{topic}-{partition} stands twice in apply")
            if after is not None and not 0 <= after <= _OFFSET_MAX:
                raise refusal(f"{topic}-{partition}: no offset: {after}")
            shown[topic, partition] = before, after
    return shown


def _decoded(body: bytes | None, kind: type[Order]) -> Order:
    """The order in the body. Raises Refusal."""
    if body is None:
        raise refusal("the order is too long")
    try:
        return json.decode(body, type=kind)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refusal(f"not an order: {error}") from None


def _wanted(order: ResetOrder) -> WantedReset:
    target = ResetTarget(order.to)
    match target:
        case ResetTarget.OFFSET | ResetTarget.SHIFT:
            least = 0 if target is ResetTarget.OFFSET else -_OFFSET_MAX
            if not isinstance(order.value, int) or not least <= order.value <= _OFFSET_MAX:
                raise refusal(f"value must be a whole number from {least} to {_OFFSET_MAX}")
            return WantedReset(target, order.value)
        case ResetTarget.TIME:
            return WantedReset(target, _time_ms(order.value))
        case _:
            return WantedReset(target)


def _time_ms(value: object) -> int:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise refusal("a time must be in ISO 8601 with its zone, such as 2026-11-21T06:57:57Z")
    return int(moment.timestamp() * 1000)
