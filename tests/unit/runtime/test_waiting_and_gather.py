"""Tokens are answered once; gathered parts keep the order of the questions."""

from __future__ import annotations

from typing import Any

from structlog.testing import capture_logs

from groupd.coordinator.runtime.gather import Gather
from groupd.coordinator.runtime.waiting import Waiter, WaitingRequests
from groupd.protocol.errors import ErrorCode


def waiter(seen: list[Any]) -> Waiter:
    return Waiter("request", lambda request, code, message: (request, code, message), seen.append)


def test_a_token_is_answered_once() -> None:
    waiting, seen = WaitingRequests(), []
    token = waiting.add(waiter(seen))
    waiting.answer(token, "reply")
    waiting.answer(token, "again")
    waiting.fail(token, ErrorCode.NOT_COORDINATOR)
    assert seen == ["reply"]
    assert len(waiting) == 0


def test_a_failure_is_made_for_its_request() -> None:
    waiting, seen = WaitingRequests(), []
    token = waiting.add(waiter(seen))
    waiting.fail(token, ErrorCode.NOT_COORDINATOR, "moved")
    assert seen == [("request", ErrorCode.NOT_COORDINATOR, "moved")]


def test_a_forgotten_token_is_not_answered() -> None:
    waiting, seen = WaitingRequests(), []
    token = waiting.add(waiter(seen))
    waiting.forget(token)
    waiting.answer(token, "late")
    assert seen == []


def test_a_receiver_that_fails_is_logged_and_not_heard_of_elsewhere() -> None:
    def broken(reply: Any) -> None:
        raise RuntimeError("bug")

    waiting = WaitingRequests()
    tokens = [waiting.add(Waiter("request", lambda *_: "failed", broken)) for _ in range(2)]
    with capture_logs() as logs:
        waiting.answer(tokens[0], "reply")
        waiting.fail(tokens[1], ErrorCode.NOT_COORDINATOR)
    assert [line["event"] for line in logs] == ["reply lost"] * 2
    assert len(waiting) == 0


def test_all_can_be_refused_oldest_first() -> None:
    waiting, seen = WaitingRequests(), []
    for name in ("a", "b"):
        waiting.add(Waiter(name, lambda request, code, _: (request, code), seen.append))
    waiting.fail_all(ErrorCode.NOT_COORDINATOR)
    assert seen == [("a", ErrorCode.NOT_COORDINATOR), ("b", ErrorCode.NOT_COORDINATOR)]
    assert len(waiting) == 0


def test_parts_come_in_any_order_and_leave_in_theirs() -> None:
    seen: list[Any] = []
    gather = Gather(3, seen.append)
    for index in (2, 0, 1):
        gather.part(index)(index * 10)
    assert seen == [[0, 10, 20]]


def test_no_parts_finish_at_once() -> None:
    seen: list[Any] = []
    Gather(0, seen.append)
    assert seen == [[]]


def test_a_refusal_is_made_without_answering() -> None:
    waiting, seen = WaitingRequests(), []
    token = waiting.add(waiter(seen))
    refusal = waiting.refusal(token, ErrorCode.GROUP_ID_NOT_FOUND, "gone")
    assert refusal == ("request", ErrorCode.GROUP_ID_NOT_FOUND, "gone")
    assert (len(waiting), seen) == (1, [])
    assert waiting.refusal(token + 1, ErrorCode.GROUP_ID_NOT_FOUND) is None
