"""A real Kafka broker (KRaft, one node) that stands in for groupd: same interface as `Daemon`.

`GROUPD_PEER=kafka` makes the client tests run against it: what passes there must pass against
groupd. The jars come from `tests/oracle/pom.xml` (`make oracle`).
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.admin import create_topics, wait_for_broker
from tests.support.ports import free_ports
from tests.support.process import ChildProcess
from tests.support.toolchain import java, oracle_classpath
from tests.support.with_internal_limits import NAMES

START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 60.0
JVM_FLAGS = ["-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
KAFKA_JVM_FLAGS = (
    *("-Xms1g", "-Xmx1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
)
"""The flags that Kafka's own start script has. `JVM_FLAGS` are there to start early."""
LOG_FLAGS = [
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dlog4j2.StatusLogger.level=OFF",
]
BASE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "num.recovery.threads.per.data.dir": "1",
    "log.cleaner.enable": "true",
    "log.cleaner.dedupe.buffer.size": "16777216",
}


def free_port() -> int:
    """A port that nobody listens on: Kafka cannot be asked for port 0."""
    return free_ports("127.0.0.1", 1)


class KafkaBroker:
    """The same as `tests.support.daemon.Daemon`, except that `stop` has more time."""

    kind = "kafka"

    def __init__(
        self,
        directory: Path,
        *,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, str] | None = None,
        jvm_flags: Sequence[str] = JVM_FLAGS,
        tls: bool = False,
    ) -> None:
        """`tls`: clients are also served at `tls_port`; `settings` say with which certificate."""
        self.directory = directory
        self._jvm_flags = jvm_flags
        self.host = "127.0.0.1"
        self.port = free_port()
        self.controller_port = free_port()
        self.tls_port = free_port() if tls else 0
        self._topics = dict(topics or {})
        self._settings = {
            key: value
            for key, value in (settings or {}).items()
            if not key.startswith("groupd.") and key not in NAMES
        }
        self._process: ChildProcess | None = None

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def process(self) -> ChildProcess:
        assert self._process is not None, "the broker was not started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.popen.pid

    def _java(self, main: str, *arguments: str) -> list[str]:
        return [java(), *self._jvm_flags, *LOG_FLAGS, "-cp", oracle_classpath(), main, *arguments]

    def _format(self, properties: Path) -> None:
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if cluster.startswith("-"):
            cluster = "A" + cluster[1:]
        command = self._java(
            "kafka.tools.StorageTool",
            "format",
            "-t",
            cluster,
            "-c",
            str(properties),
            "--standalone",
        )
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr

    def _write_properties(self) -> Path:
        listeners = f"{self.host}:{self.port},CONTROLLER://{self.host}:{self.controller_port}"
        if self.tls_port:
            listeners += f",SSL://{self.host}:{self.tls_port}"
        protocols = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL"
        values = {
            **BASE,
            "listeners": f"PLAINTEXT://{listeners}",
            "advertised.listeners": f"PLAINTEXT://{listeners}",
            "listener.security.protocol.map": protocols,
            "controller.quorum.bootstrap.servers": f"{self.host}:{self.controller_port}",
            "log.dirs": str(self.directory / "data"),
            **self._settings,
        }
        path = self.directory / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        return path

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start, and wait until clients can list the broker and create topics."""
        self.directory.mkdir(parents=True, exist_ok=True)
        first = not (self.directory / "data").exists()
        properties = self._write_properties()
        if first:
            self._format(properties)
        self._process = ChildProcess(
            self._java("kafka.Kafka", str(properties)), stderr_path=self.directory / "kafka.log"
        )
        wait_for_broker(self.bootstrap, self.process, timeout_s)
        if first and self._topics:
            create_topics(self.bootstrap, self._topics)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(AssertionError):
            self.process.wait_exit(STOP_TIMEOUT_S)
        self.process.close()

    def kill(self) -> None:
        self.process.kill()

    def restart(self, timeout_s: float = START_TIMEOUT_S) -> None:
        if self.process.running:
            self.kill()
        self.process.close()
        self.start(timeout_s)

    def logs(self) -> str:
        return self._process.output() if self._process is not None else "(never started)"

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
