"""How a request for one group is asked of the shard of that group."""

from __future__ import annotations

from typing import Any

from groupd.coordinator.core.frontend.offsets import Finish
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.waiting import Gather, Part
from groupd.protocol.errors import ErrorCode


def to_group(broker: Broker, context: RequestContext, request: Any) -> None:
    """Has the shard of the request's group answer it."""
    if broker.started:
        broker.shard_of(request.group_id).handle(context, request)
    else:
        context.token.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def ask_admitted(
    broker: Broker, context: RequestContext, kept: Any | None, finish: Finish | None
) -> None:
    """Ask the shard for what the front end did not answer itself, and merge."""
    waiter = context.token
    if finish is None:
        to_group(broker, context, kept)
    elif kept is None:
        waiter.answer(finish(None))
    else:
        gather = Gather(waiter, 1, lambda parts: finish(parts[0]))
        part = Part(kept, waiter.failure, gather, 0)
        broker.ask(broker.shard_of(kept.group_id), context, part)
