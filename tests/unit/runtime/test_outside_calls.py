"""Calls of machines to somebody outside of their shard."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from groupd.coordinator.core.types import OutsideCall
from groupd.coordinator.runtime.outside_calls import OutsideCalls
from groupd.protocol.errors import ApiError, ErrorCode
from tests.unit.runtime.harness import settle


@pytest.mark.parametrize("closed", [False, True])
async def test_once_it_is_closed_nobody_is_asked(closed: bool) -> None:
    """Records of the last requests become durable after that, and with them their calls."""
    asked: list[OutsideCall] = []
    answers: list[Any] = []

    async def callee(call: OutsideCall) -> str:
        asked.append(call)
        return "the answer"

    calls = OutsideCalls()
    calls.add("somebody", callee)
    if closed:
        calls.close()
    calls.ask(OutsideCall("somebody", "g", None), answers.append)
    await settle()
    assert (len(asked), answers) == ((0, []) if closed else (1, ["the answer"]))


@pytest.mark.parametrize("closed", [False, True])
async def test_who_waits_for_something_that_is_cancelled_has_an_answer_all_the_same(
    closed: bool,
) -> None:
    other: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    answers: list[Any] = []

    async def callee(call: OutsideCall) -> str:
        return await other

    calls = OutsideCalls()
    calls.add("somebody", callee)
    calls.ask(OutsideCall("somebody", "g", None), answers.append)
    await settle()
    if closed:
        calls.close()
    else:
        other.cancel()
    await settle()
    found = [one.code for one in answers]
    assert found == ([] if closed else [ErrorCode.COORDINATOR_NOT_AVAILABLE])


@pytest.mark.parametrize(
    ("error", "logged"),
    [(OSError("away"), True), (ApiError(ErrorCode.FENCED_STATE_EPOCH), False), (None, True)],
)
async def test_an_answer_that_nobody_foresaw_is_logged(
    error: Exception | None, logged: bool
) -> None:
    answers: list[Any] = []

    async def callee(call: OutsideCall) -> None:
        assert error is not None
        raise error

    calls = OutsideCalls()
    if error is not None:
        calls.add("somebody", callee)
    with capture_logs() as logs:
        calls.ask(OutsideCall("somebody", "g", None), answers.append)
        await settle()
    (answer,) = answers
    assert answer is error or isinstance(answer, LookupError)
    found = [(one["whom"], one["group"], one["error"]) for one in logs]
    assert found == ([("somebody", "g", answer)] if logged else [])
