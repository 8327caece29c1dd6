"""A waiter is answered once; the parts of a reply keep the order of the questions."""

from __future__ import annotations

from typing import Any

from structlog.testing import capture_logs

from groupd.coordinator.runtime.waiting import Callback, Gather, Part, WaitingRequests
from groupd.protocol.errors import ErrorCode


def failure(request: Any, code: ErrorCode, message: str | None) -> Any:
    return (request, code, message)


def waiting_for(seen: list[Any], request: Any = "request") -> tuple[WaitingRequests, Callback]:
    waiting, waiter = WaitingRequests(), Callback(request, failure, seen.append)
    waiting.add(waiter)
    return waiting, waiter


def test_a_waiter_is_answered_once() -> None:
    seen: list[Any] = []
    waiting, waiter = waiting_for(seen)
    waiter.answer("reply")
    waiter.answer("again")
    waiter.fail(ErrorCode.NOT_COORDINATOR)
    assert seen == ["reply"]
    assert len(waiting) == 0


def test_a_failure_is_made_for_its_request() -> None:
    seen: list[Any] = []
    _, waiter = waiting_for(seen)
    waiter.fail(ErrorCode.NOT_COORDINATOR, "moved")
    assert seen == [("request", ErrorCode.NOT_COORDINATOR, "moved")]


def test_an_answer_to_a_part_is_finished_and_the_request_stays() -> None:
    """Those who wrap a waiter, such as the audit log, still need the whole request."""
    for end, expected in (
        (lambda waiter: waiter.answer("answer"), ["answer and more"]),
        (
            lambda waiter: waiter.fail(ErrorCode.NOT_COORDINATOR),
            [f"{('part', ErrorCode.NOT_COORDINATOR, None)} and more"],
        ),
    ):
        seen: list[Any] = []
        _, waiter = waiting_for(seen)
        waiter.part, waiter.finish = "part", lambda answer: f"{answer} and more"
        end(waiter)
        assert seen == expected
        assert waiter.request == "request"


def test_one_that_is_forgotten_is_not_answered() -> None:
    seen: list[Any] = []
    waiting, waiter = waiting_for(seen)
    waiter.forget()
    waiter.answer("late")
    waiter.forget()
    assert (seen, len(waiting)) == ([], 0)


def test_a_receiver_that_fails_is_logged_and_not_heard_of_elsewhere() -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("bug")

    waiting = WaitingRequests()
    waiters = [Callback("request", failure, broken), Callback("request", broken, print)]
    for waiter in waiters:
        waiting.add(waiter)
    with capture_logs() as logs:
        waiters[0].answer("reply")
        waiters[1].fail(ErrorCode.NOT_COORDINATOR)
    assert [line["event"] for line in logs] == ["reply lost"] * 2
    assert len(waiting) == 0


def test_all_end_oldest_first_with_an_error_or_with_their_connection() -> None:
    waiting, seen, lost = WaitingRequests(), [], []
    for request in ("a", 7, "b"):
        waiter = Callback(
            request, lambda request, code, _: (request, code), seen.append, lambda: lost.append(1)
        )
        waiting.add(waiter)
    waiting.end_all(ErrorCode.NOT_COORDINATOR, {int})
    assert seen == [("a", ErrorCode.NOT_COORDINATOR), ("b", ErrorCode.NOT_COORDINATOR)]
    assert lost == [1]
    assert len(waiting) == 0


def test_parts_come_in_any_order_and_leave_in_theirs() -> None:
    seen: list[Any] = []
    waiting, waiter = waiting_for(seen)
    gather = Gather(waiter, 3, list)
    parts = [Part(f"question {index}", failure, gather, index) for index in range(3)]
    for part in parts:
        waiting.add(part)
    parts[2].answer(20)
    parts[0].fail(ErrorCode.NOT_COORDINATOR)
    assert seen == []
    parts[1].answer(10)
    assert seen == [[("question 0", ErrorCode.NOT_COORDINATOR, None), 10, 20]]
    assert len(waiting) == 0


def test_without_parts_the_reply_is_made_at_once() -> None:
    seen: list[Any] = []
    _, waiter = waiting_for(seen)
    Gather(waiter, 0, list)
    assert seen == [[]]
