"""Calls of machines to somebody outside of their shard."""

from __future__ import annotations

from typing import Any

import pytest

from groupd.coordinator.core.types import OutsideCall
from groupd.coordinator.runtime.outside_calls import OutsideCalls
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
