"""`process=True`: the same broker in a process of its own."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.faults.errors import HarnessError, RequestRefused, WaitTimeout
from groupd.testing.harness import GroupCoordinator
from tests.harness.members import Member


def test_everything_crosses_the_process(capfd: pytest.CaptureFixture[str]) -> None:
    with GroupCoordinator.start(topics={"orders": 2}, clock="frozen", process=True) as c:
        c.produce("orders", [{"value": "a", "headers": {"h": "1"}}])
        assert c.records("orders")[0].headers == (("h", b"1"),)
        with Member(c.bootstrap_servers, "billing") as member:
            member.wait(owned=2, values=1)
            assert c.wait_stable("billing", members=1)["state"] == "Stable"
            member.commit()
            assert c.wait_committed("billing", "orders", 0, 1) == 1
        assert c.events("billing")[-2]["event"] == "member-left"
        before = c.clock.now_ms
        c.clock.advance(60_000)
        assert c.clock.now_ms == before + 60_000
        with pytest.raises(RequestRefused, match="TOPIC_ALREADY_EXISTS"):
            c.create_topic("orders")
        with pytest.raises(WaitTimeout, match=r"0\.05 s"):
            c.wait_members("billing", 3, timeout=0.05)
        c.restart(lose_memory=True)
        assert c.topics() == {}


def test_what_cannot_start_says_so_here() -> None:
    with pytest.raises(ConfigError, match="unknown config key"):
        GroupCoordinator.start(config={"no.such.key": 1}, process=True)


def test_calls_fail_when_the_process_is_gone() -> None:
    c = GroupCoordinator.start(process=True)
    host: Any = c._host
    os.kill(host.pid, signal.SIGKILL)
    with pytest.raises(HarnessError, match="gone"):
        c.wait_members("nobody", 1)
    with pytest.raises(HarnessError, match="gone"):
        c.groups()
    c.close()


def test_close_after_a_call_that_the_dead_process_did_not_take() -> None:
    c = GroupCoordinator.start(process=True)
    host: Any = c._host
    host._process.kill()
    host._process.wait()
    with pytest.raises(BrokenPipeError):
        host._frames.send("stays in the buffer")
    c.close()
