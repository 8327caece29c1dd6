"""Who is asked again about a share-partition, and when (docs/spec/share-group.md#3)."""

from __future__ import annotations

import asyncio
from typing import Any

from groupd.coordinator.persister import (
    ShareStateRequest,
    asked_partitions,
    entries_of,
    refused,
    reply_of,
)
from groupd.coordinator.share_state.retries import NOT_NOW, NOT_THERE, PatientPersister
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.share_state import (
    ReadShareGroupStateRequest,
    ReadShareState,
    ShareStateReply,
    ShareStateTopic,
    WriteShareGroupStateRequest,
)
from tests.support.manual_clock import ManualClock
from tests.unit.share_state.harness import GROUP, NONE, T, U, asked, settle, write

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Scripted:
    """A `Persister` that gives each partition the next of its codes; the last one again."""

    def __init__(self, codes: dict[int, list[ErrorCode]]) -> None:
        self.codes = codes
        self.requests: list[ShareStateRequest] = []

    async def ask(self, request: ShareStateRequest) -> ShareStateReply:
        self.requests.append(request)
        entries = []
        for _, one in asked_partitions(request):
            codes = self.codes.get(one.partition, [NONE])
            code = codes.pop(0) if len(codes) > 1 else codes[0]
            entries.append(refused(type(request), one, code))
        return reply_of(request, entries)


def request() -> ReadShareGroupStateRequest:
    return ReadShareGroupStateRequest(
        GROUP,
        [
            ShareStateTopic(T, [asked(partition=0), asked(partition=1)]),
            ShareStateTopic(U, [asked(partition=2)]),
        ],
    )


async def answered(once: Scripted, codes: Any = NOT_NOW) -> tuple[list[Any], int]:
    """The entries, and how many ms it took."""
    clock = ManualClock()
    began_ms = clock.monotonic_ms()
    asking = asyncio.ensure_future(PatientPersister(once, clock, codes).ask(request()))
    await settle()
    while (due := clock.next_timer_ms()) is not None and not asking.done():
        clock.advance(due - clock.monotonic_ms())
        await settle()
    reply = asking.result()
    assert [topic.topic_id for topic in reply.topics] == [T, U]
    return entries_of(reply), clock.monotonic_ms() - began_ms


async def test_only_what_was_not_answered_is_asked_again() -> None:
    not_here = ErrorCode.NOT_COORDINATOR
    once = Scripted({1: [LOADING, NONE], 2: [not_here, LOADING, NONE]})
    entries, took_ms = await answered(once)
    assert entries == [ReadShareState(number) for number in range(3)]
    assert took_ms == 1_000 + 2_000
    asks = [[one.partition for _, one in asked_partitions(sent)] for sent in once.requests]
    assert asks == [[0, 1, 2], [1, 2], [2]]
    assert [topic.topic_id for topic in once.requests[1].topics] == [T, U]


async def test_it_ends_after_five_attempts() -> None:
    once = Scripted({0: [LOADING]})
    entries, took_ms = await answered(once)
    assert [entry.error for entry in entries] == [LOADING, NONE, NONE]
    assert len(once.requests) == 5
    assert took_ms == 1_000 + 2_000 + 4_000 + 8_000


async def test_other_errors_are_final() -> None:
    once = Scripted({0: [ErrorCode.FENCED_LEADER_EPOCH], 1: [UNKNOWN]})
    entries, took_ms = await answered(once)
    assert [entry.error for entry in entries[:2]] == [ErrorCode.FENCED_LEADER_EPOCH, UNKNOWN]
    assert (len(once.requests), took_ms) == (1, 0)


async def test_another_node_may_not_know_a_topic_yet() -> None:
    once = Scripted({0: [UNKNOWN, NONE]})
    entries, _ = await answered(once, NOT_THERE)
    assert entries[0].error is NONE
    assert len(once.requests) == 2


async def test_a_write_is_repeated_as_it_was() -> None:
    once = Scripted({0: [LOADING, NONE]})
    clock = ManualClock()
    sent = WriteShareGroupStateRequest(GROUP, [ShareStateTopic(T, [write(start=7)])])
    asking = asyncio.ensure_future(PatientPersister(once, clock, NOT_NOW).ask(sent))
    await settle()
    clock.advance(1_000)
    await asking
    assert once.requests == [sent, sent]
