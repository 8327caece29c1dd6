"""What becomes of the events of groups: they are counted, and are shown in the timeline and in the
log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import structlog

from groupd.coordinator.core.types import Event, EventKind
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.timeline import Timeline

log = structlog.get_logger("groupd.group")

_INFO = frozenset(
    {
        EventKind.GROUP_CREATED,
        EventKind.GROUP_DELETED,
        EventKind.MEMBER_JOINED,
        EventKind.MEMBER_LEFT,
        EventKind.MEMBER_FENCED,
        EventKind.MEMBER_REPLACED,
        EventKind.REBALANCE_STARTED,
        EventKind.REBALANCE_COMPLETED,
        EventKind.TARGET_INSTALLED,
        EventKind.GROUP_CONVERTED,
    }
)
_WHO = ("client_id", "client_host", "instance_id")
"""Details about members that join and leave."""

_WARN = frozenset({EventKind.ASSIGNOR_FAILED})


class EventSink:
    """Takes the events of all shards. `counts`: by type of group and kind of event."""

    def __init__(self, clock: Clock) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.timeline = Timeline()
        self.listeners: list[Callable[[int, Sequence[Event]], None]] = []
        """Each is called with a shard's number and the events of one input. It must not raise."""
        self._clock = clock

    def add(self, partition: int, events: Sequence[Event]) -> None:
        """Take the events of one input to a shard. An event for several facts has their number as
        `count`."""
        told = []
        for event in events:
            count = event.details.get("count")
            weight = count if isinstance(count, int) else 1
            self.counts[event.group_type, event.kind] += weight
            # There are far too many commits to log each one.
            if event.kind is not EventKind.OFFSETS_COMMITTED:
                told.append(event)
        if told:
            self.timeline.add(told, self._clock.now().wall_ms)
            log_events(partition, told)
        for listener in self.listeners:
            listener(partition, events)


def log_events(partition: int, events: Iterable[Event]) -> None:
    """Write a log line for each event: what an operator acts on at INFO, the others at DEBUG. No
    logger is asked for its level: a program whose tests start a broker may have configured
    structlog with loggers that cannot tell."""
    bound = log.bind(shard=partition)
    for event in events:
        _log(bound, event)


def _log(bound: Any, event: Event) -> None:
    facts: dict[str, Any] = {"group": event.group_id}
    if event.kind in _WARN:
        write = bound.warning
        facts.update(event.details)
    elif event.kind in _INFO:
        write = bound.info
    else:
        write = bound.debug
    if event.member_id:
        facts["member"] = event.member_id
    if event.epoch >= 0:
        facts["epoch"] = event.epoch
    details = event.details
    for name in _WHO:
        if name in details:
            facts[name] = details[name]
    if event.cause:
        facts["cause"] = event.cause
    write(event.kind.value, **facts)
