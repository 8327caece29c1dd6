"""Who reads the offsets log without groupd's help: kafka-dump-log on an export, and lag monitors in
the manner of Burrow, which consume `__consumer_offsets` and decode its records."""

from __future__ import annotations

import json
import re
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.clients.conftest import TopicMaker
from tests.support.admin import end_offsets, produce, retrying
from tests.support.daemon import Daemon
from tests.support.log_command import groupd_log
from tests.support.peer import Peer
from tests.support.toolchain import java, oracle_classpath

READ_S = 30.0
OFFSETS_TOPIC = "__consumer_offsets"


def commit(bootstrap: str, group: str, topic: str, *offsets: int) -> None:
    config = {"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0}
    with closing(Consumer(config)) as committer:
        for offset in offsets:
            at = [TopicPartition(topic, 0, offset, metadata="é")]
            retrying(lambda at=at: committer.commit(offsets=at, asynchronous=False))


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_lag_monitor_follows_the_offsets_topic(
    peer: Peer, topics: TopicMaker, unique: str, isolation: str
) -> None:
    """Does what Burrow does: assigned to every partition from the start, it decodes keys and values
    by hand, keeps the last offset per partition and takes it off the log's end."""
    counts = topics({"watched": 1})
    (topic,) = counts
    group = f"watched-{unique}"
    produce(peer.bootstrap, counts, 10)
    commit(peer.bootstrap, group, topic, 3, 7)
    found: dict[tuple[str, str, int], int] = {}
    config = {
        "bootstrap.servers": peer.bootstrap,
        "group.id": f"monitor-{unique}",
        "enable.auto.commit": False,
        "isolation.level": isolation,
        "log_level": 0,
    }
    with closing(Consumer(config)) as monitor:
        known = monitor.list_topics(OFFSETS_TOPIC, timeout=20).topics[OFFSETS_TOPIC].partitions
        monitor.assign([TopicPartition(OFFSETS_TOPIC, number, 0) for number in known])
        deadline = time.monotonic() + READ_S
        while found.get((group, topic, 0)) != 7:
            assert time.monotonic() < deadline, found
            message = monitor.poll(0.5)
            if message is not None and message.error() is None:
                read_commit(found, message.key(), message.value())
    (end,) = end_offsets(peer.bootstrap, counts).values()
    assert end - found[group, topic, 0] == 3


def read_commit(
    found: dict[tuple[str, str, int], int], key: bytes | None, value: bytes | None
) -> None:
    """Reads a commit by the documented layout, with no code of groupd's: int16 type 0 or 1, group,
    topic, partition; int16 version, offset."""
    if key is None or int.from_bytes(key[:2], "big") > 1:
        return
    names, at = [], 2
    for _ in range(2):
        length = int.from_bytes(key[at : at + 2], "big")
        names.append(key[at + 2 : at + 2 + length].decode())
        at += 2 + length
    place = (names[0], names[1], int.from_bytes(key[at:], "big"))
    if value is None:
        found.pop(place, None)
    else:
        found[place] = int.from_bytes(value[2:10], "big")


@pytest.mark.parametrize(("ids", "version"), [("drop", "3"), ("keep", "4")])
def test_kafka_dump_log_reads_an_export(tmp_path: Path, ids: str, version: str) -> None:
    """The official tool, with the offsets decoder, agrees with `groupd log dump` on every record
    and finds nothing to complain about."""
    out = tmp_path / "export"
    with closing(Daemon(tmp_path / "groupd", topics={"dumped": 1})) as daemon:
        daemon.start()
        produce(daemon.bootstrap, {"dumped": 1}, 5)
        commit(daemon.bootstrap, "dumper", "dumped", 2, 5)
        join_and_leave(daemon.bootstrap)
        groupd_log(
            "export", "--data-dir", str(daemon.data_dir), "--to", str(out), "--topic-ids", ids
        )
        daemon.stop()
    segments = sorted(str(path) for path in out.glob("*/*.log"))
    done = subprocess.run(
        [
            *[java(), "-cp", oracle_classpath(), "org.apache.kafka.tools.DumpLogSegments"],
            *["--offsets-decoder", "--deep-iteration", "--files", ",".join(segments)],
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "isvalid: false" not in done.stdout
    assert "isvalid: true" in done.stdout
    for complaint in ("Found invalid", "Non-consecutive", "Mismatches", "corrupt", "Exception"):
        assert complaint not in done.stdout + done.stderr
    shown = re.findall(r"key: (\{.*\}) payload: (.*)", done.stdout)
    ours = [
        json.loads(line) for line in groupd_log("dump", str(out), "--format", "json").splitlines()
    ]
    assert [json.loads(key)["data"] for key, _ in shown] == [line["key"]["data"] for line in ours]
    assert {line["key"]["type"] for line in ours} >= {1, 3, 5, 6, 7, 8}
    for (_, payload), line in zip(shown, ours, strict=True):
        if line["tombstone"]:
            assert payload == "<DELETE>"
            continue
        theirs = json.loads(payload)
        assert theirs["version"] == str(line["value"]["version"])
        if line["type"] == "offset-commit":
            assert theirs["version"] == version
        for name in theirs["data"].keys() & {"offset", "metadata", "epoch", "memberEpoch"}:
            assert theirs["data"][name] == line["value"]["data"][name]


def join_and_leave(bootstrap: str) -> None:
    """A KIP-848 group writes all its record types and their tombstones."""
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": "joined",
        "group.protocol": "consumer",
        "log_level": 0,
    }
    with closing(Consumer(config)) as member:
        member.subscribe(["dumped"])
        deadline = time.monotonic() + READ_S
        while not member.assignment():
            assert time.monotonic() < deadline
            member.poll(0.2)
