"""A member of a share group in a process of its own, which does what the test says."""

from __future__ import annotations

import json
import os
import queue
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.support.process import ChildProcess, WaitTimeout, wait_until
from tests.support.toolchain import go_driver, java_driver

ROOT = Path(__file__).resolve().parents[2]
ANSWER_S = 40.0
"""How long a command may take beside what it waits for itself."""
POLL_S = 2.0
DELIVERY_S = 40.0
SETTLE_S = 60.0
PROGRAMS: dict[str, Callable[[], list[str]]] = {
    "java": lambda: [*java_driver(), "share"],
    "confluent": lambda: [sys.executable, "-m", "tests.clients.drivers.confluent_share_driver"],
    "franz": lambda: [go_driver(), "franz-share"],
}
"""The commands of the members by client. Those that are not asked for need not be built."""
CLIENTS = tuple(PROGRAMS)

Partition = tuple[str, int]
Place = tuple[str, int, int]


class Delivered(NamedTuple):
    """A record as a member got it."""

    topic: str
    partition: int
    offset: int
    count: int

    @property
    def place(self) -> Place:
        return self[:3]


class ShareClientError(Exception):
    """What the client raised or reported."""


@dataclass(frozen=True)
class ShareWay:
    """How a member works. `acquire`: `batch_optimized` or `record_limit`."""

    client: str
    explicit: bool = True
    acquire: str = "batch_optimized"
    max_records: int = 500


RECORD_LIMIT_CLIENTS = ("java", "franz")
"""librdkafka has neither `record_limit` nor `renew`."""


class ShareMember:
    """One member. Its commands may be given by one thread at a time."""

    def __init__(
        self, way: ShareWay, bootstrap: str, group: str, topics: Iterable[str], log: Path
    ) -> None:
        self.way = way
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.process = ChildProcess(
            [
                *PROGRAMS[way.client](),
                *["--bootstrap", bootstrap, "--group", group, "--client-id", log.stem],
                *["--topics", ",".join(sorted(topics))],
                *["--ack", "explicit" if way.explicit else "implicit", "--acquire", way.acquire],
                *["--max-records", str(way.max_records)],
            ],
            stderr_path=log,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"},
            cwd=ROOT,
            on_line=lambda line: self._answers.put(json.loads(line)),
        )

    def _ask(self, what: str, wait_s: float = 0.0, **fields: object) -> dict[str, Any]:
        self.process.write_line(json.dumps({"do": what, **fields}))
        try:
            answer = self._answers.get(timeout=wait_s + ANSWER_S)
        except queue.Empty:
            raise WaitTimeout(f"no answer to {what}\n{self.process.output()}") from None
        if answer["event"] == "error":
            raise ShareClientError(answer["error"])
        return answer

    def poll(self, seconds: float = POLL_S) -> list[Delivered]:
        """One poll; perhaps nothing."""
        return [Delivered(*at) for at in self._ask("poll", seconds, seconds=seconds)["records"]]

    def poll_records(self, timeout_s: float = DELIVERY_S) -> list[Delivered]:
        """Polls until there are records."""
        found: list[Delivered] = []

        def polled() -> bool:
            found.extend(self.poll())
            return bool(found)

        wait_until(polled, timeout_s, "records of a share group", self.process.output)
        return found

    def acknowledge(self, kind: str, records: Sequence[Delivered]) -> None:
        """`kind`: accept, release, reject or renew. It is sent with the next `commit` or poll."""
        self._ask("acknowledge", **{"as": kind, "records": [record[:3] for record in records]})

    def commit(self) -> dict[Partition, str | None]:
        """Sends the acknowledgements: the error of each partition, None if it went well."""
        results = self._ask("commit")["results"]
        return {(topic, partition): error for topic, partition, error in results}

    def finish(self, kind: str, records: Sequence[Delivered]) -> None:
        """Acknowledges these records, which the broker must take."""
        self.acknowledge(kind, records)
        outcome = self.commit()
        assert outcome == {record[:2]: None for record in records}, outcome

    def renew(self, records: Sequence[Delivered]) -> None:
        """Renews the locks of these records. The Java client gives them out again then."""
        self.finish("renew", records)
        if self.way.client == "java":
            assert self.poll() == list(records)

    def subscribe(self, topics: Iterable[str]) -> None:
        self._ask("subscribe", topics=sorted(topics))

    def close(self) -> None:
        """The member leaves, and its process ends."""
        self._ask("close")
        assert self.process.wait_exit(ANSWER_S) == 0, self.process.output()

    def kill(self) -> None:
        """SIGKILL: the client says no goodbye."""
        self.process.kill()


def accept_all(member: ShareMember, wanted: Iterable[Place]) -> list[Delivered]:
    """Accepts what comes until all `wanted` records have come; returns it in order."""
    missing, found = set(wanted), list[Delivered]()

    def done() -> bool:
        polled = member.poll()
        if polled:
            member.finish("accept", polled)
        found.extend(polled)
        missing.difference_update(record.place for record in polled)
        return not missing

    wait_until(done, SETTLE_S, "all records", lambda: f"missing {sorted(missing)[:5]}")
    return found


class ShareGroup:
    """A group that begins at the start of its topics, and the processes of its members."""

    def __init__(self, bootstrap: str, group_id: str, directory: Path) -> None:
        self.bootstrap, self.group_id = bootstrap, group_id
        self.members: list[ShareMember] = []
        self._directory = directory
        self.configure(share_auto_offset_reset="earliest")

    def configure(self, **values: str) -> None:
        set_group_configs(self.bootstrap, self.group_id, **values)

    def member(self, way: ShareWay, topics: Iterable[str]) -> ShareMember:
        """Starts one more member."""
        log = self._directory / f"{self.group_id}-{way.client}-{len(self.members)}.log"
        self.members.append(ShareMember(way, self.bootstrap, self.group_id, topics, log))
        return self.members[-1]

    def close(self) -> None:
        for member in self.members:
            member.process.close()


def set_group_configs(bootstrap: str, group: str, **values: str) -> None:
    """Sets configs of a group: `share_auto_offset_reset="earliest"`."""
    resource = ConfigResource(
        ResourceType.GROUP,
        group,
        incremental_configs=[
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in values.items()
        ],
    )
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in client.incremental_alter_configs([resource]).values():
        future.result()
