"""Record and replay with real clients: what was recorded happens again, what differs is found."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from groupd.coordinator.core.assignors.uniform import UniformAssignor
from groupd.coordinator.faults.errors import RequestRefused
from groupd.coordinator.recording.reader import BadRecording
from groupd.testing import replay
from groupd.testing.harness import GroupCoordinator
from tests.harness.members import Member, settings

ROOT = Path(__file__).resolve().parents[2]
SESSION_MS = 45_000


def story(path: Path, number: int) -> None:
    """Members join, commit, are refused, hang and go; each number tells another one."""
    protocol = ("consumer", "classic")[number % 2]
    with GroupCoordinator.start(topics={"orders": 4}, clock="frozen", record=path) as c:
        c.produce("orders", [f"v{n}" for n in range(number + 1)])
        with Member(c.bootstrap_servers, "billing", protocol) as one:
            one.wait(owned=4, values=number + 1)
            if number % 3 == 0:
                refused(c, protocol)
            one.commit()
            with Member(c.bootstrap_servers, "billing", protocol) as two:
                # Until the second cooperative rebalance is over: librdkafka waits 5 s where it
                # closes within one.
                one.wait(owned=2)
                two.wait(owned=2)
                c.wait_stable("billing", members=2)
                if number % 4 == 1:
                    c.faults.fail_appends(applied=number % 8 == 1)
                if number % 4 == 2:
                    c.recipes.zombie_member("billing").release()
                if number % 5 == 3:
                    c.clock.advance(SESSION_MS, keep_connected=False)
                c.clock.advance(1000 * number)
                with suppress(RequestRefused):
                    c.commit("elsewhere", {("orders", 0): number})
                if number % 7 == 4:
                    c.restart(lose_memory=False)
                    c.wait_stable("billing", timeout=30)
        c.clock.run(100.0)
        producer = Producer({"bootstrap.servers": c.bootstrap_servers, "transactional.id": "t"})
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce("orders", b"t", partition=0)
        (producer.commit_transaction if number % 2 else producer.abort_transaction)(20)


def refused(c: GroupCoordinator, protocol: str) -> None:
    consumer = Consumer(settings(c.bootstrap_servers, "refused", protocol))
    with (
        c.fault("error", api="OffsetCommit", code="INVALID_COMMIT_OFFSET_SIZE", count=1),
        pytest.raises(KafkaException),
    ):
        consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    consumer.close()


@pytest.mark.parametrize("number", range(20))
def test_what_was_recorded_happens_again(tmp_path: Path, number: int) -> None:
    story(tmp_path / "r", number)
    difference = replay(tmp_path / "r")
    assert difference is None, str(difference)


def test_incidents_of_share_groups(tmp_path: Path) -> None:
    with GroupCoordinator.start({"orders": 1}, clock="frozen", record=tmp_path / "r") as c:
        c.produce("orders", ["a", "b"])
        consumer = c.share_consumer("workers", "orders")
        given = {"topic": "orders", "acknowledges": True, "code": "INVALID_REQUEST", "count": 1}
        fault = c.fault("error", **given)
        consumer.poll(10)
        consumer.commit_sync()
        assert fault.hits == 1
        c.recipes.share_leader_failover("workers")
        assert len(consumer.poll(10)) == 2
        c.recipes.slow_worker("workers")
        c.recipes.share_coordinator_failover()
        c.clock.run(50)
        assert len(consumer.poll(10)) == 2
        consumer.commit_sync()
        c.share("workers").wait_acknowledged(2)
    difference = replay(tmp_path / "r")
    assert difference is None, str(difference)


async def test_aiokafka(tmp_path: Path) -> None:
    path = tmp_path / "r"
    async with GroupCoordinator.start_async(topics={"orders": 2}, record=path) as c:
        async with AIOKafkaProducer(bootstrap_servers=c.bootstrap_servers) as producer:
            await producer.send_and_wait("orders", b"one", partition=1)
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=c.bootstrap_servers,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        async with consumer:
            assert (await consumer.getone()).value == b"one"
            await consumer.commit()
            assert await c.aio.wait_committed("billing", "orders", 1, 1) == 1
    difference = replay(path)
    assert difference is None, str(difference)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded") / "r"
    story(path, 2)
    return path


def changed(tree: Any) -> bool:
    """Change the last number or text of a message; False if there is none."""
    if not isinstance(tree, dict | list):
        return False
    items = list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree))
    for key, value in reversed(items):
        if key in ("@", "$"):
            continue
        if changed(value):
            return True
        if isinstance(value, bool | str | int):
            tree[key] = value + "x" if isinstance(value, str) else int(value) + 1
            return True
    return False


def test_one_changed_field_is_found_at_its_request(recorded: Path, tmp_path: Path) -> None:
    lines = recorded.read_text().splitlines(keepends=True)
    replies = [at for at, line in enumerate(lines) if '"k":"reply"' in line]
    tried = 0
    for at in replies[:: max(1, len(replies) // 12)]:
        entry = json.loads(lines[at])
        if not changed(entry["m"]):
            continue
        tried += 1
        mutated = [*lines[:at], json.dumps(entry) + "\n", *lines[at + 1 :]]
        (tmp_path / "m").write_text("".join(mutated))
        difference = replay(tmp_path / "m")
        assert difference is not None
        assert difference.request.number == entry["to"], str(difference)
        assert len(difference.fields) == 1
    assert tried >= 10


def test_a_missing_reply_and_one_too_many_are_found(recorded: Path, tmp_path: Path) -> None:
    lines = recorded.read_text().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if "ConsumerGroupHeartbeatReply" in line)
    to = json.loads(lines[at])["to"]
    (tmp_path / "less").write_text("".join([*lines[:at], *lines[at + 1 :]]))
    less = replay(tmp_path / "less")
    assert less is not None
    assert (less.request.number, less.fields[0].expected) == (to, "(no reply by then)")
    # A request that nothing depends on, as if it had been lost on the way.
    to = json.loads([line for line in lines if "MetadataReply" in line][-1])["to"]
    frame = next(n for n, line in enumerate(lines) if f'{{"n":{to},' in line)
    silent = {**json.loads(lines[frame]), "k": "opened", "host": "127.0.0.1", "c": 10_000}
    (tmp_path / "more").write_text(
        "".join([*lines[:frame], json.dumps(silent) + "\n", *lines[frame + 1 :]])
    )
    more = replay(tmp_path / "more")
    assert more is not None
    assert (more.request.number, more.fields[0].got) == (to, "(no reply by then)")


def test_a_build_that_behaves_differently(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert replay(recorded) is None
    steps = UniformAssignor.assign_steps

    def swapped(self: UniformAssignor, spec: Any, topics: Any) -> Any:
        result = yield from steps(self, spec, topics)
        return dict(
            zip(sorted(result), [result[name] for name in sorted(result)][::-1], strict=True)
        )

    monkeypatch.setattr(UniformAssignor, "assign_steps", swapped)
    difference = replay(recorded)
    assert difference is not None
    assert difference.request.api == "ConsumerGroupHeartbeat"
    assert difference.request.groups == ("billing",)
    assert difference.fields[0].path.startswith("assignment")
    assert difference.before
    text = str(difference)
    assert "recorded: " in text
    assert "target-installed" in text


def test_a_different_configuration(recorded: Path) -> None:
    difference = replay(recorded, config={"group.consumer.heartbeat.interval.ms": 77})
    assert difference is not None
    (field,) = difference.fields
    assert (field.path, field.expected, field.got) == ("heartbeat_interval_ms", 50, 77)
    with pytest.raises(BadRecording, match="unknown config key"):
        replay(recorded, config={"no.such.key": 1})


def test_a_recording_that_names_code_of_its_own_is_not_trusted(
    recorded: Path, tmp_path: Path
) -> None:
    head, rest = recorded.read_text().split("\n", 1)
    header = json.loads(head)
    header["config"]["group.consumer.assignors"] = "os:system"
    (tmp_path / "m").write_text(json.dumps(header) + "\n" + rest)
    with pytest.raises(BadRecording, match="os:system"):
        replay(tmp_path / "m")


def test_a_recording_of_a_build_with_another_setting(recorded: Path, tmp_path: Path) -> None:
    head, rest = recorded.read_text().split("\n", 1)
    header = json.loads(head)
    header["config"]["groupd.of.another.build"] = "5"
    (tmp_path / "m").write_text(json.dumps(header) + "\n" + rest)
    assert replay(tmp_path / "m") is None


def test_a_recording_in_a_process_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with (
        GroupCoordinator.start(topics={"orders": 2}, process=True, record=path) as c,
        Member(c.bootstrap_servers, "billing") as member,
    ):
        member.wait(owned=2)
        c.produce("orders", ["a"])
        member.wait(values=1)
        member.commit()
        assert set(c.committed("billing").values()) == {1}
    assert replay(path) is None


PLUGIN_RUN = """
import pytest
from confluent_kafka import Consumer

@pytest.mark.groupd(topics={"orders": 1})
@pytest.mark.parametrize("fails", [False, True])
def test_it(groupd, groupd_factory, fails):
    other = groupd_factory()
    assert not fails
"""


def test_the_plugin_keeps_recordings_of_failed_tests(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(PLUGIN_RUN)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "groupd.testing.pytest_plugin"]
    command += ["-p", "no:cacheprovider", "--groupd-record", "kept", "test_it.py"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    kept = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert kept == ["test_it.py_test_it_True_-1.jsonl", "test_it.py_test_it_True_-2.jsonl"]
    assert f"groupd replay {tmp_path / 'kept' / kept[0]}" in done.stdout
    assert replay(tmp_path / "kept" / kept[0]) is None
