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
    from groupd.testing import pytest_plugin
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
from groupd.coordinator.core.types import Event, EventKind

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


HOLDS = """
import pytest
@pytest.mark.groupd(topics={"orders": 1}, clock="frozen")
def test_it(groupd):
    groupd.produce("orders", ["coffee", "tea"])
    groupd.share_consumer("workers", "orders").poll(10)
    raise AssertionError("the test fails")
"""


def test_a_failure_shows_what_workers_hold(pytester: pytest.Pytester) -> None:
    result = run(pytester, HOLDS)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "group workers:",
            "  orders-0: begins at 0, the log ends at 2",
            "    0 to 1: acquired, delivery count 1, held by * for 30000 ms",
        ]
    )


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
        "import pytest\nbefore = set(sys.modules)\nimport groupd.testing.pytest_plugin\n"
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(["groupd", "groupd.testing", "groupd.testing.pytest_plugin"])


REWRITTEN = """
import sys

def test_it(groupd):
    hooks = {name: type(module.__spec__.loader).__name__ for name, module in sys.modules.items()
             if name.partition(".")[0] == "groupd"}
    assert len(hooks) > 100
    rewritten = [name for name, hook in hooks.items() if hook == "AssertionRewritingHook"]
    assert set(rewritten) <= {"groupd", "groupd.testing", "groupd.testing.pytest_plugin"}
"""
MARKED = "import pytest\npytest.register_assert_rewrite('groupd')\n"


def test_pytest_rewrites_nothing_but_the_plugin(pytester: pytest.Pytester) -> None:
    """pytest marks the packages of a distribution with a plugin, as it does when it is told to."""
    pytester.makepyfile(marked=MARKED)
    pytester.makepyfile(REWRITTEN)
    pytester.makeconftest(CONFTEST)
    result = pytester.runpytest_subprocess("-p", "marked", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)


TIMEOUT = """
from confluent_kafka import Consumer
import pytest

@pytest.mark.groupd(topics={"orders": 3})
def test_it(groupd):
    groupd.produce("orders", ["a"])
    consumer = Consumer({"group.id": "billing", "auto.offset.reset": "earliest",
                         "enable.auto.commit": False,
                         **groupd.client_config("confluent-kafka", protocol="consumer")})
    consumer.subscribe(["orders"])
    message = consumer.poll(10)
    consumer.commit(message, asynchronous=False)
    try:
        groupd.wait_stable("billing", members=2, timeout=0.2)
    finally:
        consumer.close()
"""
MISTAKES = """
import pytest

def test_type(groupd):
    groupd.wait_members("billing", "2")
def test_group(groupd):
    groupd.lag("biling")
def test_fault(groupd):
    groupd.fault("error", api="OffsetComit", code="NOT_COORDINATOR")
def test_option(groupd):
    with groupd.fault("drop", grup="billing"):
        pass
def test_recipe(groupd):
    groupd.recipes.zombie_member("billing")
def test_handle(groupd):
    groupd.fault("drop", api="OffsetCommit").wait(1, timeout=0.05)
def test_clock(groupd):
    groupd.clock.advance("45 s")
def test_records(groupd):
    groupd.create_topic("orders")
    groupd.produce("orders", "abc")
def test_factory(groupd_factory):
    groupd_factory(topcs={"orders": 1})
async def test_coroutine(groupd):
    await groupd.aio.wait_members("billing", 1, timeout=0.05)
@pytest.mark.groupd(topic={"orders": 3})
def test_marker(groupd): pass
@pytest.mark.groupd(config={"num.partition": 3})
def test_config(groupd): pass
@pytest.mark.groupd(topics={"orders": "3"})
def test_topics(groupd): pass
@pytest.mark.groupd(profile="tset")
def test_profile(groupd): pass
"""
SAID = [
    "wait_members(): count must be a whole number, not str",
    "no group biling; groups: none",
    "did you mean OffsetCommit?",
    "a fault has no grup; did you mean group?",
    "no group billing; groups: none",
    "not within 0.05 s: 1 hits of fault",
    "advance(): ms must be a whole number, not str",
    "produce(): records must be a list, not str",
    "start() has no argument topcs; did you mean topics?",
    "not within 0.05 s: group billing with 1 members",
    "start() has no argument topic; did you mean topics?",
    "unknown config key 'num.partition'; did you mean num.partitions?",
    "start(): topics['orders'] must be a whole number, not str",
    "profile 'tset'; did you mean test?: must be default or test",
]


def test_a_timeout_is_one_page_that_says_each_event_once(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)  # pytest then repeats whole messages in its summary
    result = run(pytester, TIMEOUT)
    result.assert_outcomes(failed=1)
    shown = result.stdout.str()
    assert "groupd/testing/" not in shown
    assert len(result.outlines) < 70
    for event in ("member-joined", "target-installed", "offsets-fetched", "offsets-committed"):
        assert shown.count(f" {event} ") == 1, shown


def test_mistakes_end_in_the_line_of_the_test(pytester: pytest.Pytester) -> None:
    result = run(pytester, MISTAKES, "-o", "asyncio_mode=auto", "-o", SCOPE)
    result.assert_outcomes(failed=10, errors=4)
    shown = result.stdout.str()
    assert "groupd/testing/" not in shown
    assert "During handling" not in shown
    for line in SAID:
        assert line in shown, line
