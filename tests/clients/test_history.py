"""`groupd groups` with real clients: what was committed when, who moved it, and back again.

Everything goes through `--bootstrap`, so it holds for a real Kafka too (GROUPD_PEER=kafka); of
groupd the store is read as well, beside the daemon and after its end.
"""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import Consumer, TopicPartition

from groupd.coordinator.cli.kafka.calls import commit_offsets
from groupd.coordinator.cli.kafka.cluster import KafkaCluster
from groupd.coordinator.cli.main import main
from groupd.coordinator.cli.parse import servers
from groupd.coordinator.moves.plan import Current
from groupd.protocol.errors import ErrorCode
from tests.clients.conftest import TopicMaker
from tests.support.admin import QUIET, committed, produce, retrying
from tests.support.daemon import Daemon
from tests.support.peer import Peer
from tests.support.process import wait_until
from tests.support.wire_client import WireClient, coordinator_of

COMMAND_S = 60.0
JOIN_S = 30.0
Places = dict[tuple[str, int], int]


class Done(NamedTuple):
    stdout: str
    stderr: str


def groups(*arguments: str, code: int = 0) -> Done:
    """`groupd groups ...` in this process, which must end with `code`."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main(["groups", *arguments])
    done = Done(out.getvalue(), err.getvalue())
    assert ended.value.code == code, (arguments, done)
    return done


def lines(*arguments: str) -> list[dict[str, Any]]:
    output = groups(*arguments, "--format", "json").stdout
    return [json.loads(line) for line in output.splitlines()]


def sources(peer: Peer) -> list[list[str]]:
    """Every way to read this peer's log."""
    found = [["--bootstrap", peer.bootstrap]]
    return [*found, ["--data-dir", str(peer.data_dir)]] if isinstance(peer, Daemon) else found


def instant() -> str:
    """Now, in ms; what comes next is later than that."""
    now_ms = time.time_ns() // 1_000_000
    wait_until(lambda: time.time_ns() // 1_000_000 > now_ms, 1, "the next millisecond")
    return str(now_ms)


def rewind(bootstrap: str, group: str, offsets: Places) -> None:
    """What an operator does: commits without being a member."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **QUIET})
    places = [TopicPartition(topic, part, offset) for (topic, part), offset in offsets.items()]
    try:
        retrying(lambda: consumer.commit(offsets=places, asynchronous=False))
    finally:
        consumer.close()


def now_committed(bootstrap: str, group: str, counts: dict[str, int]) -> Places:
    found = committed(bootstrap, group, counts)
    return {place: offset for place, offset in found.items() if offset >= 0}


def shown(*arguments: str) -> Places:
    return {(at["topic"], at["partition"]): at["offset"] for at in lines("offsets", *arguments)}


class Member:
    """A member of librdkafka that commits where the test wants it to."""

    def __init__(self, bootstrap: str, group: str, topics: list[str], protocol: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": "worker"}
        self.consumer = Consumer(
            {
                **settings,
                "group.protocol": protocol,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **QUIET,
            }
        )
        self.consumer.subscribe(topics)

    def join(self, partitions: int) -> None:
        def assigned() -> bool:
            self.consumer.poll(0.05)
            return len(self.consumer.assignment()) == partitions

        wait_until(assigned, JOIN_S, "an assignment")

    def commit(self, offsets: Places) -> None:
        places = [TopicPartition(topic, part, offset) for (topic, part), offset in offsets.items()]
        self.consumer.commit(offsets=places, asynchronous=False)

    def close(self) -> None:
        self.consumer.close()


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_three_instants_a_rewind_and_the_way_back(
    peer: Peer, topics: TopicMaker, unique: str, protocol: str
) -> None:
    counts = topics({"orders": 2})
    (orders,) = counts
    produce(peer.bootstrap, counts, 60)
    group = f"billing-{protocol}-{unique}"
    member = Member(peer.bootstrap, group, [orders], protocol)
    try:
        member.join(2)
        seen: list[tuple[str, Places]] = []
        for offsets in ({(orders, 0): 5}, {(orders, 0): 12, (orders, 1): 7}, {(orders, 1): 20}):
            member.commit(offsets)
            seen.append((instant(), now_committed(peer.bootstrap, group, counts)))
        good, then = seen[-1]
        assert then == {(orders, 0): 12, (orders, 1): 20}

        # With members: the plan is shown, and refused.
        asked = ["restore", group, "--at", seen[0][0], "--bootstrap", peer.bootstrap]
        for more in ([], ["--apply"]):
            assert "members" in groups(*asked, *more, code=1).stderr
        # Should somebody join between the look and the write, the coordinator refuses by itself.
        with KafkaCluster(servers(peer.bootstrap, "--bootstrap")) as cluster:
            coordinator = cluster.coordinator(group)
            wanted = {(orders, 0): Current(1)}
            assert commit_offsets(coordinator, group, wanted) == {
                (orders, 0): ErrorCode.UNKNOWN_MEMBER_ID
            }
        assert now_committed(peer.bootstrap, group, counts) == then
    finally:
        member.close()
    rewind(peer.bootstrap, group, {(orders, 0): 3})

    for source in sources(peer):
        for at, answer in seen:
            assert shown(group, "--at", at, *source) == answer
        moves = lines("history", group, *source)
        assert [
            (
                move["partition"],
                move["kind"],
                move["from"] and move["from"]["offset"],
                move["to"]["offset"],
                move["by"]["actor"],
                move["by"]["client_id"],
            )
            for move in sorted(moves, key=lambda move: (move["partition"], move["log_offset"]))
        ] == [
            (0, "first", None, 5, "owner", "worker"),
            (0, "forward", 5, 12, "owner", "worker"),
            (0, "reset", 12, 3, "admin/simple", ""),
            (1, "first", None, 7, "owner", "worker"),
            (1, "forward", 7, 20, "owner", "worker"),
        ]
        events = [e["kind"] for e in lines("history", group, "--events", *source)]
        assert events.index("member-joined") < events.index("forward") < events.index("emptied")
        since = lines(
            "history", group, "--topic", orders, "--partition", "0", "--since", good, *source
        )
        assert [move["kind"] for move in since] == ["reset"]
        # The reset's own place in the log, and the one right before it.
        at_reset = since[0]["log_offset"]
        assert shown(group, "--at-log-offset", str(at_reset), *source)[orders, 0] == 3
        assert shown(group, "--at-log-offset", str(at_reset - 1), *source)[orders, 0] == 12

    asked = ["restore", group, "--at", good, "--bootstrap", peer.bootstrap]
    assert "dry run" in groups(*asked).stderr
    assert now_committed(peer.bootstrap, group, counts) == {(orders, 0): 3, (orders, 1): 20}
    steps = lines(*asked, "--apply")
    assert [(s["partition"], s["action"], s["from"], s["to"]) for s in steps] == [
        (0, "commit", 3, 12),
        (1, "keep", 20, 20),
    ]
    assert now_committed(peer.bootstrap, group, counts) == then
    assert "nothing to do" in groups(*asked, "--apply").stderr
    if isinstance(peer, Daemon):
        from_store = [*asked, "--data-dir", str(peer.data_dir)]
        assert "nothing to do" in groups(*from_store).stderr


async def test_aiokafka_members_are_named_as_owners_of_their_partitions(
    peer: Peer, topics: TopicMaker, unique: str
) -> None:
    counts = topics({"a": 2})
    (topic,) = counts
    group = f"aio-{unique}"
    produce(peer.bootstrap, counts, 20)

    def member(name: str) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            topic,
            bootstrap_servers=peer.bootstrap,
            group_id=group,
            client_id=name,
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
        )

    first, second = member("one"), member("two")
    try:
        await first.start()
        await second.start()
        async with asyncio.timeout(JOIN_S):
            while not len(first.assignment()) == len(second.assignment()) == 1:
                await asyncio.sleep(0.05)
        for consumer in (first, second):
            ((_, part),) = consumer.assignment()
            await consumer.commit({AioPartition(topic, part): 4 + part})
        held = {
            part: name
            for name, c in (("one", first), ("two", second))
            for _, part in c.assignment()
        }
    finally:
        await first.stop()
        await second.stop()
    for source in sources(peer):
        moves = await asyncio.to_thread(lines, "history", group, *source)
        by = {move["partition"]: move["by"] for move in moves}
        assert {part: author["client_id"] for part, author in by.items()} == held
        assert {author["actor"] for author in by.values()} == {"owner"}


def test_deleted_offsets_and_offsets_that_were_not_there_then(
    peer: Peer, topics: TopicMaker, unique: str
) -> None:
    counts = topics({"t": 3})
    (topic,) = counts
    group = f"gone-{unique}"
    rewind(peer.bootstrap, group, {(topic, 0): 1, (topic, 1): 2})
    then = instant()
    with WireClient(*coordinator_of(peer.bootstrap, group)) as client:
        reply = client.call(
            "OffsetDelete",
            0,
            group_id=group,
            topics=[{"name": topic, "partitions": [{"partition_index": 1}]}],
        )
    assert reply["error_code"] == 0
    rewind(peer.bootstrap, group, {(topic, 2): 9})
    for source in sources(peer):
        assert shown(group, *source) == {(topic, 0): 1, (topic, 2): 9}
        assert shown(group, "--at", then, *source) == {(topic, 0): 1, (topic, 1): 2}
        kinds = [(m["partition"], m["kind"], m["to"]) for m in lines("history", group, *source)]
        assert (1, "deleted", None) in kinds

    asked = ["restore", group, "--at", then, "--bootstrap", peer.bootstrap]
    plan = {step["partition"]: step for step in lines(*asked)}
    assert [plan[part]["action"] for part in range(3)] == ["keep", "commit", "leave"]
    assert "beyond the end" in plan[1]["warning"]
    groups(*asked, "--apply")
    assert now_committed(peer.bootstrap, group, counts) == {
        (topic, 0): 1,
        (topic, 1): 2,
        (topic, 2): 9,
    }
    groups(*asked, "--apply", "--delete-new")
    assert now_committed(peer.bootstrap, group, counts) == {(topic, 0): 1, (topic, 1): 2}


def test_a_topic_made_anew_gets_no_old_offsets(peer: Peer, topics: TopicMaker, unique: str) -> None:
    from confluent_kafka.admin import AdminClient

    from tests.support.admin import create_topics

    counts = topics({"again": 1})
    (topic,) = counts
    group = f"again-{unique}"
    rewind(peer.bootstrap, group, {(topic, 0): 1})
    then = instant()
    admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})
    for future in admin.delete_topics([topic]).values():
        future.result()
    asked = ["restore", group, "--at", then, "--bootstrap", peer.bootstrap]

    def warning() -> str:
        return str(lines(*asked)[0]["warning"])

    wait_until(lambda: "not exist" in warning(), 30, "the topic to be gone")
    create_topics(peer.bootstrap, counts)
    assert "anew" in warning()
    assert "nothing to do" in groups(*asked, "--apply").stderr


def test_the_store_is_read_after_a_kill_and_after_a_stop(
    tmp_path_factory: pytest.TempPathFactory, unique: str
) -> None:
    daemon = Daemon(tmp_path_factory.mktemp("stopped"), topics={"t": 1})
    end: list[Callable[[], None]] = [daemon.kill, daemon.stop]
    try:
        daemon.start()
        source = ["--data-dir", str(daemon.data_dir)]
        for offset, finish in enumerate(end, start=1):
            rewind(daemon.bootstrap, "g", {("t", 0): offset})
            finish()
            assert shown("g", *source) == {("t", 0): offset}
            assert len(lines("history", "g", *source)) == offset
            daemon.restart()
        daemon.stop()
    finally:
        daemon.close()


def test_what_cannot_be_asked_is_told_in_one_line(peer: Peer, unique: str) -> None:
    source = ["--bootstrap", peer.bootstrap]
    rewound = f"few-{unique}"
    for arguments, code, said in [
        (["offsets", rewound, "--at", "yesterday", *source], 2, "yesterday"),
        (["offsets", rewound, "--at", "now", "--at-log-offset", "1", *source], 2, "one of them"),
        (["offsets", rewound, "--at-log-offset", "999999999", *source], 2, "not written yet"),
        (["offsets", rewound, "--data-dir", "x", *source], 2, "--bootstrap"),
        (["offsets", rewound, "--data-dir", "/nowhere"], 2, "no such store"),
        (["offsets", rewound, "--store", "memory://"], 2, "memory"),
        (["offsets", rewound, "--bootstrap", "127.0.0.1:1"], 1, "no Kafka broker"),
        (["history", rewound, "--partition", "1", *source], 2, "--topic"),
        (["restore", rewound, *source], 2, "--at"),
        (["list", "--admin", "127.0.0.1:1"], 1, "no answer"),
    ]:
        done = groups(*arguments, code=code)
        assert said in done.stderr
        assert done.stdout == ""
        assert len(done.stderr.splitlines()) == 1
    assert "nothing committed" in groups("offsets", rewound, *source).stderr


def test_groups_of_the_daemon_are_listed_and_described(
    peer: Peer, topics: TopicMaker, unique: str
) -> None:
    if not isinstance(peer, Daemon):
        pytest.skip("the admin port is groupd's own")
    counts = topics({"t": 2})
    (topic,) = counts
    group = f"live [b]/{unique}"
    member = Member(peer.bootstrap, group, [topic], "consumer")
    command = [sys.executable, "-m", "groupd", "groups", "list"]
    admin = ["--admin", f"127.0.0.1:{peer.admin_port}"]
    try:
        member.join(2)
        assert group in {row["group_id"] for row in lines("list", *admin)}
        done = subprocess.run(
            [*command, *admin], capture_output=True, text=True, timeout=COMMAND_S, check=True
        )
        assert group in done.stdout
        (found,) = lines("describe", group, *admin)
        assert found["members"][0]["client_id"] == "worker"
        text = groups("describe", group, *admin).stdout
        assert "state: Stable" in text
        assert found["members"][0]["member_id"] in text
    finally:
        member.close()
    assert "no group" in groups("describe", f"none-{unique}", *admin, code=1).stderr
