"""Groups move between groupd and a real broker through `groupd log`: both load what the other
wrote, and consumers of both protocols go on where they had committed."""

from __future__ import annotations

import json
import shutil
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.clients.tools import Tools
from tests.support.admin import committed, produce, retrying
from tests.support.daemon import Daemon
from tests.support.kafka_broker import KafkaBroker
from tests.support.log_command import groupd_log
from tests.support.peer import FAST_SETTINGS, peer_kind
from tests.support.process import wait_until

pytestmark = [
    pytest.mark.skipif(peer_kind() == "kafka", reason="starts its own broker and its own daemon"),
    pytest.mark.timeout(300),
]

TOPICS = {"orders": 3}
PROTOCOLS = ("classic", "consumer")
POLL_S = 30.0
EPOCHS = {"classic": ("generation", 0), "consumer": ("group_epoch", 1)}
"""The field that counts the changes of a group, and by how much it grows when the member of an
imported group comes: groupd hashes topic metadata in its own way, so a consumer group sees a change
once."""


def consumer(bootstrap: str, group: str, protocol: str, **config: str | int) -> Consumer:
    """A consumer that does not reset: if it finds no offset, or one outside of the log, it gets an
    error."""
    settings: dict[str, str | int | bool] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "log_level": 0,
    }
    return Consumer({**settings, **{key.replace("_", "."): v for key, v in config.items()}})


def read(bootstrap: str, group: str, protocol: str, count: int, **config: str) -> dict[int, int]:
    """Read `count` records and commit; the first offset by partition."""
    first: dict[int, int] = {}
    with closing(consumer(bootstrap, group, protocol, **config)) as reader:
        reader.subscribe(sorted(TOPICS))
        deadline = time.monotonic() + POLL_S
        while count:
            assert time.monotonic() < deadline, f"{count} records are missing; {first}"
            message = reader.poll(0.5)
            if message is None:
                continue
            assert message.error() is None, message.error()
            first.setdefault(message.partition(), message.offset())
            count -= 1
        reader.commit(asynchronous=False)
    return first


def fill(bootstrap: str) -> dict[str, dict[tuple[str, int], int]]:
    """Groups of both protocols that have read some, and one that only ever committed."""
    produce(bootstrap, TOPICS, 30)
    for protocol in PROTOCOLS:
        read(bootstrap, f"moving-{protocol}", protocol, 30, auto_offset_reset="earliest")
    with closing(consumer(bootstrap, "simple", "classic")) as simple:
        at = [TopicPartition("orders", 1, 7, metadata="seventh")]
        retrying(lambda: simple.commit(offsets=at, asynchronous=False))
    found = offsets_of(bootstrap)
    assert found["simple"] == {("orders", 0): -1, ("orders", 1): 7, ("orders", 2): -1}
    return found


def offsets_of(bootstrap: str) -> dict[str, dict[tuple[str, int], int]]:
    groups = [*(f"moving-{protocol}" for protocol in PROTOCOLS), "simple"]
    return {group: committed(bootstrap, group, TOPICS) for group in groups}


def check_resumed(bootstrap: str, before: Mapping[str, dict[tuple[str, int], int]]) -> None:
    """Offsets are there, and consumers get exactly what comes after them. A broker of Kafka that
    has just started may answer with no offsets at all, before it has read its groups."""
    wait_until(lambda: offsets_of(bootstrap) == before, 30, "the offsets of before are back")
    produce(bootstrap, TOPICS, 6)
    for protocol in PROTOCOLS:
        group = f"moving-{protocol}"
        first = read(bootstrap, group, protocol, 6)
        assert first == {part: before[group]["orders", part] for part in range(3)}


# From groupd to Kafka


@pytest.mark.parametrize("partitions", [50, 1], ids=["same count", "other count"])
def test_a_broker_loads_an_export_and_its_consumers_resume(tmp_path: Path, partitions: int) -> None:
    daemon = Daemon(tmp_path / "groupd", topics=TOPICS, settings=FAST_SETTINGS)
    broker = KafkaBroker(
        tmp_path / "kafka",
        topics=TOPICS,
        settings={**FAST_SETTINGS, "offsets.topic.num.partitions": str(partitions)},
    )
    with closing(daemon), closing(broker):
        daemon.start()
        before = fill(daemon.bootstrap)
        out = tmp_path / "export"
        flags = [] if partitions == 50 else ["--partitions", str(partitions)]
        groupd_log("export", "--data-dir", str(daemon.data_dir), "--to", str(out), *flags)
        daemon.stop()

        broker.start()
        produce(broker.bootstrap, TOPICS, 30)
        broker.stop()
        put_into(broker, out)
        broker.start()
        check_resumed(broker.bootstrap, before)
        broker.stop()


def put_into(broker: KafkaBroker, exported: Path) -> None:
    """Puts our files in the place of the broker's, as docs/log.md tells people to."""
    for directory in (broker.directory / "data").glob("__consumer_offsets-*"):
        for file in directory.iterdir():
            if file.name != "partition.metadata":
                file.unlink()
        ours = exported / directory.name
        if ours.is_dir():
            for file in ours.iterdir():
                shutil.copy(file, directory)


# From Kafka to groupd


def compressing_broker(directory: Path) -> KafkaBroker:
    """A broker whose offsets log has two partitions and is compressed, so every group moves."""
    settings = {
        **FAST_SETTINGS,
        "offsets.topic.num.partitions": "2",
        "offsets.topic.compression.codec": "4",
    }
    return KafkaBroker(directory, topics=TOPICS, settings=settings)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with closing(compressing_broker(tmp_path_factory.mktemp("kafka"))) as made:
        made.start()
        yield made


@pytest.fixture(scope="module")
def before(broker: KafkaBroker) -> dict[str, dict[tuple[str, int], int]]:
    found = fill(broker.bootstrap)
    for ends, commit in (("committed", True), ("aborted", False)):
        send_offsets(broker.bootstrap, ends, commit=commit)
    return found


def send_offsets(bootstrap: str, name: str, *, commit: bool) -> None:
    """Sends offset 5 of orders-0 for the group `name` in a transaction, then commits or aborts
    it."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    with closing(consumer(bootstrap, name, "classic")) as asker:
        producer.send_offsets_to_transaction(
            [TopicPartition("orders", 0, 5)], asker.consumer_group_metadata(), 30
        )
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


def serve(directory: Path) -> Daemon:
    """A daemon that gives members of a dump time to come back, however busy the machine is."""
    settings = {**FAST_SETTINGS, "group.consumer.session.timeout.ms": "60000"}
    daemon = Daemon(directory, settings=settings)
    daemon.start()
    return daemon


def test_a_copy_of_a_running_broker_is_imported(
    broker: KafkaBroker, before: Mapping[str, dict[tuple[str, int], int]], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    groupd_log("consume", "--bootstrap", broker.bootstrap, "--to", str(copy))
    assert "0 findings" in groupd_log("verify", str(copy), "--partitions", "2")
    target = ["--into-data-dir", str(tmp_path / "groupd" / "data")]
    said = groupd_log("import", "--from", str(copy), *target, "--create-topics")
    assert "topic orders: created with 3 partitions" in said
    assert "left out: 1 offsets of aborted transactions" in said
    daemon = serve(tmp_path / "groupd")
    with closing(daemon):
        assert committed(daemon.bootstrap, "committed", TOPICS)["orders", 0] == 5
        assert committed(daemon.bootstrap, "aborted", TOPICS)["orders", 0] == -1
        check_resumed(daemon.bootstrap, before)
        daemon.stop()


def test_what_the_official_formatters_print_is_imported(
    broker: KafkaBroker, before: Mapping[str, dict[tuple[str, int], int]], tmp_path: Path
) -> None:
    copy = tmp_path / "copy.json"
    with closing(Tools(tmp_path)) as tools, copy.open("w") as file:
        for formatter in ("OffsetsMessageFormatter", "GroupMetadataMessageFormatter"):
            said = tools.call(
                broker.bootstrap,
                "kafka-console-consumer",
                *["--topic", "__consumer_offsets", "--from-beginning", "--timeout-ms", "8000"],
                *["--formatter", f"org.apache.kafka.tools.consumer.{formatter}"],
                *["--command-property", "isolation.level=read_committed"],
            )
            assert said.exit == 0, said.err
            file.write(said.out)
    groupd_log("import", "--from", str(copy), "--into-data-dir", str(tmp_path / "groupd" / "data"))
    daemon = Daemon(tmp_path / "groupd", topics=TOPICS, settings=FAST_SETTINGS)
    with closing(daemon):
        daemon.start()
        assert committed(daemon.bootstrap, "committed", TOPICS)["orders", 0] == 5
        # The formatters print nothing of KIP-848 groups but their offsets, which are all there.
        assert offsets_of(daemon.bootstrap) == before
        daemon.stop()


def test_members_of_a_dump_go_on_in_the_same_generation(tmp_path: Path) -> None:
    """A broker dies with static members in its groups; the same instances join groupd later and
    find generation or group epoch and their partitions as they were."""
    with closing(compressing_broker(tmp_path / "kafka")) as broker:
        broker.start()
        before = fill(broker.bootstrap)
        waiting = [static_member(broker.bootstrap, protocol) for protocol in PROTOCOLS]
        for member in waiting:
            assigned(member, broker.logs)
        # Both stay in their groups: a static member says at most that it will be back.
        for member in waiting:
            member.close()
        broker.kill()
    data = tmp_path / "kafka" / "data"
    said = groupd_log(
        *["import", "--from", str(data), "--into-data-dir", str(tmp_path / "groupd" / "data")],
        "--create-topics",
    )
    assert "1 classic Stable" in said
    daemon = serve(tmp_path / "groupd")
    with closing(daemon):
        loaded = {protocol: view(daemon, f"static-{protocol}") for protocol in PROTOCOLS}
        for protocol in PROTOCOLS:
            with closing(static_member(daemon.bootstrap, protocol)) as again:
                assigned(again, daemon.logs)
                joined = view(daemon, f"static-{protocol}")
            field, step = EPOCHS[protocol]
            assert joined[field] == loaded[protocol][field] + step
            (member,) = joined["members"]
            assert member["instance_id"] == "one"
        assert offsets_of(daemon.bootstrap) == before
        daemon.stop()


def static_member(bootstrap: str, protocol: str) -> Consumer:
    """A consumer that is subscribed as the instance `one` of a group of its own."""
    member = consumer(
        bootstrap,
        f"static-{protocol}",
        protocol,
        group_instance_id="one",
        auto_offset_reset="latest",
    )
    member.subscribe(sorted(TOPICS))
    return member


def assigned(reader: Consumer, logs: Callable[[], str]) -> None:
    """Polls until the only member of a group has everything."""
    deadline = time.monotonic() + POLL_S
    while len(reader.assignment()) < sum(TOPICS.values()):
        assert time.monotonic() < deadline, logs()
        reader.poll(0.2)


def view(daemon: Daemon, group: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{daemon.admin_url}/groups/{group}", timeout=10) as reply:
        found = json.load(reply)
    assert isinstance(found, dict)
    return found
