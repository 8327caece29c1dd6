"""The pytest plugin, in test runs of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAD = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
SCOPE = "asyncio_default_fixture_loop_scope=function"
CONFTEST = (
    HEAD
    + """
import pytest
def pytest_configure(config):
    from coordinator.testing import pytest_plugin
    if not config.pluginmanager.has_plugin("groupd"):
        config.pluginmanager.register(pytest_plugin, "groupd")
"""
)
SYNC = """
import pytest
from confluent_kafka import Producer

@pytest.mark.groupd(topics={"orders": 3}, config={"num.partitions": 7})
class TestMarked:
    def test_topics(self, groupd):
        assert groupd.topics() == {"orders": 3}

    @pytest.mark.groupd(topics={"more": 1}, clock="frozen")
    def test_markers_add_up(self, groupd):
        assert groupd.topics() == {"orders": 3, "more": 1}
        before = groupd.clock.now_ms
        assert groupd.clock.now_ms == before

def test_fresh_one(groupd, groupd_session):
    assert groupd.topics() == {}
    assert groupd.bootstrap_servers != groupd_session.bootstrap_servers

def test_factory(groupd_factory):
    one, two = groupd_factory(topics={"a": 1}), groupd_factory(topics={"b": 1})
    assert (one.topics(), two.topics()) == ({"a": 1}, {"b": 1})
    one.close()

@pytest.mark.parametrize("number", range(4))
def test_session(groupd_session, number):
    groupd_session.create_topic(f"t{number}")
    producer = Producer({"bootstrap.servers": groupd_session.bootstrap_servers})
    producer.produce(f"t{number}", b"x")
    assert producer.flush(10) == 0
    assert len(groupd_session.records(f"t{number}")) == 1
"""
ASYNC = """
import pytest
from aiokafka import AIOKafkaProducer

{mark}
@pytest.mark.groupd(topics={{"orders": 1}})
async def test_it(groupd):
    async with AIOKafkaProducer(bootstrap_servers=groupd.bootstrap_servers) as producer:
        await producer.send_and_wait("orders", b"x")
    assert [r.value for r in await groupd.aio.records("orders")] == [b"x"]
{more}
"""
ANYIO_BACKEND = """
@pytest.fixture
def anyio_backend():
    return "asyncio"
"""
FAILING = """
def test_it(groupd):
    groupd.create_topic("orders")
    groupd.commit("billing", {("orders", 0): 1})
    for number in range(3):
        groupd.commit(f"group-{number}", {("orders", 0): 1})
    groupd.clock.advance(9 * 24 * 3600 * 1000)
    assert False, "as it should"
"""
BROKEN = """
from coordinator.core.types import Event, EventKind

def test_it(groupd):
    groupd.create_topic("orders")
    engine = groupd._host._engine
    engine.invariants.report("billing", "an invented violation")
"""


def run(pytester: pytest.Pytester, source: str, *arguments: str) -> pytest.RunResult:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(source)
    return pytester.runpytest_subprocess(
        "-p", "no:randomly", "-p", "no:cacheprovider", "--strict-markers", *arguments
    )


def test_fixtures_and_markers(pytester: pytest.Pytester) -> None:
    run(pytester, SYNC, "-W", "error", "-o", SCOPE).assert_outcomes(passed=8)


def test_under_xdist(pytester: pytest.Pytester) -> None:
    run(pytester, SYNC, "-n", "2").assert_outcomes(passed=8)


@pytest.mark.parametrize(
    ("mark", "more", "arguments"),
    [
        ("@pytest.mark.asyncio", "", ()),
        ("", "", ("-o", "asyncio_mode=auto")),
        ("@pytest.mark.anyio", ANYIO_BACKEND, ("-p", "no:asyncio")),
    ],
    ids=["asyncio-strict", "asyncio-auto", "anyio"],
)
def test_async_tests(
    pytester: pytest.Pytester, mark: str, more: str, arguments: tuple[str, ...]
) -> None:
    source = ASYNC.format(mark=mark, more=more)
    run(pytester, source, *arguments).assert_outcomes(passed=1)


def test_a_failure_carries_the_events(pytester: pytest.Pytester) -> None:
    result = run(pytester, FAILING)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*groupd events*", "group billing:", "*offsets-expired*"])


def test_a_violation_fails_the_test_at_its_end(pytester: pytest.Pytester) -> None:
    result = run(pytester, BROKEN)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*InvariantViolation: group billing: an invented violation*"])


def test_a_marker_with_positions_is_refused(pytester: pytest.Pytester) -> None:
    source = "import pytest\n@pytest.mark.groupd({'a': 1})\ndef test_it(groupd): pass\n"
    result = run(pytester, source)
    result.stdout.fnmatch_lines(["*the marker groupd takes keywords only*"])


def test_the_plugin_imports_nothing_of_the_broker() -> None:
    code = HEAD + (
        "import pytest\nbefore = set(sys.modules)\nimport coordinator.testing.pytest_plugin\n"
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(
        ["coordinator", "coordinator.testing", "coordinator.testing.pytest_plugin"]
    )
