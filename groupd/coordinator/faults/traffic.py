"""Stands between the connections and the broker and notes which members have sent what.

It is the innermost layer that `Daemon(wrap=...)` may add, so it does not see requests that a fault
keeps from the broker.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from groupd.coordinator.faults.intercepted import InterceptedSlot, watch
from groupd.coordinator.faults.liveness import Liveness, MemberKey
from groupd.coordinator.server.slot import Requests, Slot
from groupd.protocol.messages.classic_group import HeartbeatRequest, SyncGroupRequest
from groupd.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
)
from groupd.protocol.wire.registry import Api

OBSERVED = (OffsetCommitRequest, TxnOffsetCommitRequest, OffsetFetchRequest)
"""The requests whose replies are passed to `replied`."""


class Traffic:
    """A `Requests`. `epochs`: the highest epoch (or generation) that each member has named in a
    heartbeat, which is how a client acknowledges it. `replied` is called with each request of a
    type in `OBSERVED` and the broker's reply."""

    def __init__(
        self,
        inner: Requests,
        liveness: Liveness,
        changed: Callable[[], None],
        replied: Callable[[Any, Any], None] | None = None,
    ) -> None:
        self._inner = inner
        self._liveness = liveness
        self._changed = changed
        self._replied = replied
        self.epochs: dict[MemberKey, int] = {}

    def submit(self, slot: Slot, api: Api, request: Any) -> None:
        heard = partial(self._liveness.heard, request, slot.connection)
        heard()
        watch(slot, heard)
        said = _epoch(request)
        if self._replied is not None and isinstance(request, OBSERVED):
            self._observe(self._replied, slot, api, request)
        else:
            self._inner.submit(slot, api, request)
        if said is not None:
            key = (request.group_id, request.member_id)
            if said > self.epochs.get(key, 0):
                self.epochs[key] = said
                self._changed()

    def _observe(
        self, replied: Callable[[Any, Any], None], slot: Slot, api: Api, request: Any
    ) -> None:
        def on_reply(reply: Any) -> None:
            replied(request, reply)
            slot.send(reply)

        observed = InterceptedSlot(slot, on_reply)
        self._inner.submit(observed, api, request)
        slot.stand_in = observed.stand_in or observed

    def forget(self, slot: Slot) -> None:
        self._inner.forget(slot)


def _epoch(request: Any) -> int | None:
    """The epoch that a member names in a heartbeat. All types have it at the same place, but for
    classic groups."""
    if isinstance(request, HeartbeatRequest | SyncGroupRequest):
        return request.generation_id
    epoch: int | None = getattr(request, "member_epoch", None)
    return epoch
