"""POST `/groups/{id}/offsets/reset` and `/groups/{id}/offsets/restore`: what an operator orders at
the console. Both say what would be done; with `apply` they do it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from msgspec import DecodeError, Struct, ValidationError, json

from groupd.coordinator.history.reset_plan import ResetTarget, WantedReset
from groupd.coordinator.history.stream import UnreadableLog
from groupd.coordinator.moves.mover import CannotMove, Moved, OffsetMover
from groupd.coordinator.moves.own_requests import Operator, context_of
from groupd.coordinator.moves.past import BeforeHistory
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.server.admin_groups import NotServed, served_shard
from groupd.coordinator.server.admin_http import HttpReply, HttpRequest, as_json, text

_OFFSET_MAX = 2**63 - 1


class PartitionOrder(Struct, frozen=True):
    topic: str
    partition: int


class ResetOrder(Struct, frozen=True):
    """The body of a reset. `value`: the offset, the number of records to shift by, or a time in ISO
    8601. `partitions` null: all that have an offset."""

    to: Literal["earliest", "latest", "time", "offset", "shift"]
    value: int | str | None = None
    partitions: list[PartitionOrder] | None = None
    apply: bool = False


class RestoreOrder(Struct, frozen=True):
    """The body of a restore. `at`: a time in ISO 8601."""

    at: str
    delete_new: bool = False
    apply: bool = False


class BadOrder(Exception):
    """`str()` is one line that says what is wrong with the body."""


class OffsetPages:
    def __init__(self, broker: Broker, mover: OffsetMover) -> None:
        self._broker = broker
        self._mover = mover

    async def act(self, request: HttpRequest) -> HttpReply:
        match request.path:
            case ("groups", group_id, "offsets", "reset" | "restore" as what):
                try:
                    return await self._act(request, group_id, what)
                except BadOrder as error:
                    return text(str(error), 400)
                except (CannotMove, BeforeHistory) as error:
                    return text(str(error), 409)
                except NotServed as error:
                    return text(str(error), 503)
                except UnreadableLog as error:
                    return text(str(error), 500)
            case _:
                return text("not found", 404)

    async def _act(self, request: HttpRequest, group_id: str, what: str) -> HttpReply:
        order: Any = _decoded(request.body, ResetOrder if what == "reset" else RestoreOrder)
        shard = served_shard(self._broker, group_id)
        apply = None
        if order.apply:
            apply = context_of(Operator(request.caller), request.address, None)
        if what == "reset":
            places = order.partitions
            if places is not None:
                places = [(one.topic, one.partition) for one in places]
            moved = await self._mover.reset(shard, group_id, _wanted(order), places, apply)
        else:
            at_ms = _time_ms(order.at)
            moved = await self._mover.restore(
                shard, group_id, at_ms, apply, delete_new=order.delete_new
            )
        return as_json(_shown(moved), compact=True)


def _shown(moved: Moved) -> dict[str, Any]:
    return {"rows": moved.rows, "refusal": moved.refusal, "applied": moved.applied}


def _decoded(body: bytes | None, kind: type) -> Any:
    if body is None:
        raise BadOrder("the order is too long")
    try:
        return json.decode(body, type=kind)
    except (DecodeError, ValidationError) as error:
        raise BadOrder(f"not an order: {error}") from None


def _wanted(order: ResetOrder) -> WantedReset:
    target = ResetTarget(order.to)
    match target:
        case ResetTarget.OFFSET | ResetTarget.SHIFT:
            least = 0 if target is ResetTarget.OFFSET else -_OFFSET_MAX
            if not isinstance(order.value, int) or not least <= order.value <= _OFFSET_MAX:
                raise BadOrder(f"value must be a whole number from {least} to {_OFFSET_MAX}")
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
        raise BadOrder("a time must be in ISO 8601 with its zone, such as 2026-11-21T06:57:57Z")
    return int(moment.timestamp() * 1000)
