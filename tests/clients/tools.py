"""Kafka's official command-line tools, called in one JVM (`groupd.clients.Main tools`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tests.support.process import ChildProcess, wait_until
from tests.support.toolchain import DRIVER_MAIN, JVM_FLAGS, JVM_LOG, java, tools_classpath

CALL_TIMEOUT_S = 60.0
MAINS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-configs": "org.apache.kafka.tools.ConfigCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
}


@dataclass(frozen=True)
class Said:
    """What a tool printed and how it ended."""

    exit: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of stdout that have text."""
        return [line for line in self.out.splitlines() if line.strip()]

    @property
    def table(self) -> list[dict[str, str]]:
        """stdout as a table: a header, then rows; columns are separated by blanks.

        Lines before the header (it begins with GROUP) do not count.
        """
        lines = self.lines
        start = next(at for at, line in enumerate(lines) if line.startswith("GROUP "))
        names = lines[start].replace("COORDINATOR (ID)", "COORDINATOR ID").split()
        return [dict(zip(names, row.split(), strict=False)) for row in lines[start + 1 :]]


class Tools:
    """One JVM that calls one tool after another against one bootstrap server."""

    def __init__(self, directory: Path) -> None:
        self._process = ChildProcess(
            [java(), *JVM_FLAGS, JVM_LOG, "-cp", tools_classpath(), DRIVER_MAIN, "tools"],
            stderr_path=directory / "tools.log",
        )

    def call(self, bootstrap: str, tool: str, *arguments: str, stdin: str = "") -> Said:
        """The tool's outcome; `--bootstrap-server` is added."""
        before = len(self._process.stdout_lines)
        request = {
            "main": MAINS[tool],
            "args": ["--bootstrap-server", bootstrap, *arguments],
            "stdin": stdin,
        }
        self._process.write_line(json.dumps(request))
        wait_until(
            lambda: len(self._process.stdout_lines) > before or not self._process.running,
            CALL_TIMEOUT_S,
            f"{tool} {' '.join(arguments)}",
            self._process.output,
        )
        assert self._process.running, self._process.output()
        return Said(**json.loads(self._process.stdout_lines[before]))

    def close(self) -> None:
        self._process.close()
