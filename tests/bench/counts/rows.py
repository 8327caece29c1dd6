"""The rows that are counted: requests of a lone client, one after the other."""

from __future__ import annotations

import itertools
import json
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice, repeat
from pathlib import Path
from statistics import median_low
from typing import NamedTuple

from groupd.protocol.messages.share_fetch import ACCEPT
from tests.bench import frames
from tests.bench.counts import trace
from tests.bench.counts.trace import Calls
from tests.bench.daemon_process import DaemonProcess
from tests.bench.load import classic_frames
from tests.bench.load.members import PARTITIONS, TOPIC, Member
from tests.bench.peers.processes import Peer
from tests.bench.security.variants import ACL_SETTINGS, make_acls
from tests.bench.share.group import Range, ShareMember, share_members
from tests.support.raw import FrameSocket, fetch
from tests.support.wire_client import WireClient
from tests.support.wire_requests import batch, produce

PROFILED = Path(__file__).with_name("profiled.py")
ALLOCATING = Path(__file__).with_name("allocating.py")
REQUESTS = 30
"""How many requests of each row are counted."""
WARM_UP = 10
"""Requests of each row before that, which are not counted: the first one may make what later ones
find."""
RECORDS = 100

Client = FrameSocket
Requests = Callable[[Client], Iterator[bytes]]
"""Prepares what a row needs; then endless requests, as whole frames."""


@dataclass(frozen=True, slots=True)
class Row:
    """`work`: the functions with which the work on the request begins and ends; what is called
    before and after it are the layers. `setting`: how the daemon is started, see `SETTINGS`."""

    name: str
    requests: Requests
    work: tuple[str, str] | None = None
    setting: str = "memory"


class Allocations(NamedTuple):
    """What one request allocates. `peak`: the most bytes that it holds at once. The others: the
    bytes and the memory blocks that it leaves behind."""

    peak: int
    left: int
    blocks: int


MEMORY = ("--store", "memory://")
SETTINGS = {
    "memory": MEMORY,
    "sqlite": (),
    "acls": (*MEMORY, *(f for k, v in ACL_SETTINGS.items() for f in ("--set", f"{k}={v}"))),
}
AT_ONCE = {
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
}


def _told(client: Client, frame: bytes) -> bytes:
    client.socket.sendall(frame)
    return client.frame()[4:]  # without the correlation id


def _heartbeats(client: Client) -> Iterator[bytes]:
    member = Member("bench-0", "member-0")
    while member.hears(_told(client, member.says())) or not member.owned:
        pass
    return repeat(member.steady())


def _commits(client: Client, partitions: int) -> Iterator[bytes]:
    return repeat(frames.offset_commit(f"commit-{partitions}", TOPIC, partitions, 42))


def _fetches(client: Client, partitions: int) -> Iterator[bytes]:
    _told(client, next(_commits(client, partitions)))
    return repeat(frames.offset_fetch(f"commit-{partitions}", TOPIC, partitions))


def _joins(client: Client) -> Iterator[bytes]:
    """Members of the consumer protocol, each the first of its group."""
    number = 0
    while True:
        number += 1
        yield frames.consumer_heartbeat(f"join-{number:04d}", "member", 0, (TOPIC,), ())


def _classic_joins(client: Client) -> Iterator[bytes]:
    """Members of the classic protocol, each the first of its group."""
    number = 0
    while True:
        number += 1
        yield classic_frames.join(f"classic-{number:04d}", TOPIC, "", 300_000)


def read_frame(client: Client) -> bytes:
    """A Fetch of a batch of records, which is there then."""
    _write_records(client, 0)
    return fetch(0, TOPIC, 0, 0, 0)


def _write_records(client: Client, partition: int) -> None:
    """Appends a batch of records."""
    with WireClient(client.host, client.port) as other:
        other.pipeline([produce(TOPIC, batch(RECORDS), partition=partition)])


def write_frame(client: Client) -> bytes:
    """A Produce of a batch of records."""
    with WireClient(client.host, client.port) as other:
        return other.frame_of(*produce(TOPIC, batch(RECORDS)))


def _share_fetches(client: Client) -> Iterator[bytes]:
    """ShareFetches that acknowledge the record that the one before acquired, and acquire one."""
    member, topic_id = _share_member(client, "share-fetch", 1)
    _told(client, member.fetch(1))
    for offset in itertools.count():
        yield member.fetch(1, offset + 1, [Range(topic_id, 1, offset, offset)])


def _share_acknowledgements(client: Client) -> Iterator[bytes]:
    """ShareAcknowledges of one record each."""
    member, topic_id = _share_member(client, "share-acknowledge", 2)
    _told(client, member.fetch(RECORDS))
    for offset in range(RECORDS):
        ranges = [Range(topic_id, 2, offset, offset)]
        yield member.acknowledge(ranges, bytes((ACCEPT,)), offset + 1)


def _share_member(client: Client, group: str, partition: int) -> tuple[ShareMember, bytes]:
    """A member that reads a partition of its own, in which a batch of records is, and the topic
    id."""
    _write_records(client, partition)
    (member,) = share_members((client.host, client.port), group, 1, PARTITIONS)
    (topic_id,) = member.assigned
    return ShareMember(member.group, member.name, {topic_id: (partition,)}), topic_id


COMMIT = ("commit_offsets", "MemoryStore.append")
"""A commit is answered when the store has it."""
FETCH = ("fetch_offsets", "fetch_offsets")

ROWS: Sequence[Row] = (
    Row("heartbeat", _heartbeats),
    Row("commit-1", partial(_commits, partitions=1), COMMIT),
    Row("commit-10", partial(_commits, partitions=10), COMMIT),
    Row("commit-100", partial(_commits, partitions=100), COMMIT),
    Row("commit-1-sqlite", partial(_commits, partitions=1), setting="sqlite"),
    Row("commit-100-sqlite", partial(_commits, partitions=100), setting="sqlite"),
    Row("commit-1-acls", partial(_commits, partitions=1), COMMIT, "acls"),
    Row("offset-fetch-10", partial(_fetches, partitions=10), FETCH),
    Row("fetch-records", lambda client: repeat(read_frame(client))),
    Row("produce-records", lambda client: repeat(write_frame(client))),
    Row("share-fetch", _share_fetches),
    Row("share-acknowledge", _share_acknowledgements),
)


JOINS = (Row("join", _joins), Row("join-classic", _classic_joins))
"""Timers have a part in these, so their numbers differ from run to run and are not kept."""


def count(rows: Sequence[Row], installed: Path | None = None) -> dict[str, Calls]:
    """The calls of each row. `installed`: the tree of another commit, whose daemon is asked. Raises
    what a row raises that the daemon cannot do."""
    found: dict[str, Calls] = {}
    for out, asked in _noted(rows, PROFILED, installed):
        traced = trace.read(out)
        found |= {row.name: traced.usual(number, row.work) for number, row in asked}
    return {row.name: found[row.name] for row in rows}


def allocate(rows: Sequence[Row]) -> dict[str, Allocations]:
    """What most requests of each row allocate."""
    found: dict[str, Allocations] = {}
    for out, asked in _noted(rows, ALLOCATING):
        kept = json.loads(out.read_text())
        for number, row in asked:
            found[row.name] = Allocations(*map(median_low, zip(*kept[str(number)], strict=True)))
    return {row.name: found[row.name] for row in rows}


def _noted(
    rows: Sequence[Row], script: Path, installed: Path | None = None
) -> Iterator[tuple[Path, list[tuple[int, Row]]]]:
    """Asks a daemon below `script` for the rows of each setting: what the script wrote, and the
    rows with the correlation ids of their requests."""
    for setting in SETTINGS:
        asked = list(enumerate((row for row in rows if row.setting == setting), 1))
        if not asked:
            continue
        with tempfile.TemporaryDirectory(prefix="groupd-counts-") as directory:
            out = Path(directory) / "noted.json"
            with started(setting, Path(directory), installed, script, out) as peer:
                for number, row in asked:
                    ask(peer, row, number)
            yield out, asked


@contextmanager
def started(setting: str, path: Path, installed: Path | None, *under: Path) -> Iterator[Peer]:
    flags = [*SETTINGS[setting], "--topic", f"{TOPIC}:{PARTITIONS}"]
    for key, value in AT_ONCE.items():
        flags += ["--set", f"{key}={value}"]
    with DaemonProcess(*flags, data_dir=path, installed=installed, under=under) as daemon:
        peer = Peer("groupd", *daemon.kafka, daemon.pid)
        if setting == "acls":
            make_acls(peer)
        yield peer


def ask(peer: Peer, row: Row, number: int) -> None:
    """Sends the requests of a row, each when the one before it has been answered. Those that count
    have `number` as correlation id."""
    with FrameSocket(peer.port, peer.host, timeout_s=60) as client:
        requests = row.requests(client)
        for sent, frame in enumerate(islice(requests, WARM_UP + REQUESTS)):
            correlation = struct.pack(">i", 0 if sent < WARM_UP else number)
            client.socket.sendall(frame[:8] + correlation + frame[12:])
            client.frame()
