"""The share coordinator of the core backend, scripted: it knows start offsets by share-partition,
and may be slow, fail, or be down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from groupd.coordinator.core.types import OutsideCall
from groupd.coordinator.persister import ShareStateRequest, first_error
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicIdPartition
from groupd.protocol.messages.share_state import (
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    ShareStateReply,
    ShareStateResult,
    ShareStateSummary,
    ShareStateTopic,
)
from tests.scenarios.runner.backend import Names
from tests.scenarios.runner.command import partitions_of, show_partitions


class CorePersister:
    """A `Persister`, and the callee of a shard's calls. `heard`: lines about what it was asked."""

    def __init__(self, names: Names, answered: Callable[[OutsideCall, Any], None]) -> None:
        self._names = names
        self._answered = answered
        self._holds = self._down = False
        self._held: list[OutsideCall] = []
        self._errors: dict[TopicIdPartition, ErrorCode] = {}
        self._state: dict[tuple[str, bytes, int], tuple[int, int]] = {}
        """(start offset, delivery complete count) by group, topic id and partition."""
        self.heard: list[str] = []

    def take(self, call: OutsideCall) -> None:
        """A shard asks."""
        self.heard.append(self._shown(call.request))
        if self._holds:
            self._held.append(call)
        else:
            self._answer(call)

    def _answer(self, call: OutsideCall) -> None:
        answer: Any = OSError("down") if self._down else self._reply(call.request)
        if call.whom == "share-state-deletion" and not self._down:
            answer = first_error(answer)
        self._answered(call, answer)

    async def ask(self, request: ShareStateRequest) -> ShareStateReply:
        return self._reply(request)

    def _reply(self, request: Any) -> ShareStateReply:
        topics = [
            ShareStateTopic(
                topic.topic_id,
                [self._partition(request, topic.topic_id, one) for one in topic.partitions],
            )
            for topic in request.topics
        ]
        return ShareStateReply(topics)

    def _partition(self, request: Any, topic_id: bytes, one: Any) -> Any:
        number = one if isinstance(one, int) else one.partition
        key = request.group_id, topic_id, number
        error = self._errors.get((topic_id, number), ErrorCode.NONE)
        if isinstance(request, ReadShareGroupStateSummaryRequest):
            start, count = self._state.get(key, (-1, -1))
            return ShareStateSummary(
                number, error, start_offset=start, delivery_complete_count=count
            )
        if not error and isinstance(request, InitializeShareGroupStateRequest):
            self._state[key] = one.start_offset, -1 if one.start_offset == -1 else 0
        elif not error and isinstance(request, DeleteShareGroupStateRequest):
            self._state.pop(key, None)
        return ShareStateResult(number, error)

    def control(self, what: str, *more: str) -> None:
        """`hold`; `answer` the held calls, and all from now on (`answer {foo:0-2}`: brokers wait
        until these partitions are initialized); `fail CODE {foo:1}`: these
        partitions, until the next `answer`; `down`, `up`; `state g {foo:0} start=10 count=5`."""
        if what == "hold":
            self._holds = True
        elif what in ("down", "up"):
            self._down = what == "down"
        elif what == "state":
            group, places, *pairs = more
            values = dict(pair.split("=") for pair in pairs)
            for place in self._places(places):
                self._state[group, *place] = int(values["start"]), int(values["count"])
        elif what == "fail":
            code, places = more
            self._errors = dict.fromkeys(self._places(places), ErrorCode[code])
        else:
            assert what == "answer", what
            self._errors, self._holds = {}, False
            held, self._held = self._held, []
            for call in held:
                self._answer(call)

    def _places(self, text: str) -> list[TopicIdPartition]:
        return [
            (self._names.topic_id(topic), number)
            for topic, numbers in partitions_of(text).items()
            for number in numbers
        ]

    def _shown(self, request: Any) -> str:
        """`Initialize {foo:0-2} epoch=2 start=-1`."""
        kind = type(request).__name__.removesuffix("ShareGroupStateRequest")
        facts: dict[str, dict[str, list[int]]] = {}
        for topic in request.topics:
            for one in topic.partitions:
                fact = ""
                if not isinstance(one, int):
                    fact = f" epoch={one.state_epoch} start={one.start_offset}"
                number = one if isinstance(one, int) else one.partition
                its = facts.setdefault(fact, {})
                its.setdefault(self._names.topic_of(topic.topic_id), []).append(number)
        shown = [f"{show_partitions(places)}{fact}" for fact, places in sorted(facts.items())]
        return f"asks {kind} {', '.join(shown)}"
