"""A listener container of Spring Kafka 4.1 on a share group."""

from __future__ import annotations

from pathlib import Path

from tests.clients.conftest import TopicMaker
from tests.clients.share import ShareGroup
from tests.support.admin import produce
from tests.support.peer import Peer
from tests.support.process import ChildProcess, wait_until
from tests.support.toolchain import spring_listener

SETTLE_S = 60.0
STOP_S = 30.0


def test_a_listener_container_accepts_releases_and_rejects(
    peer: Peer, topics: TopicMaker, share_group: ShareGroup, tmp_path: Path
) -> None:
    (topic,) = counts = topics({"listened": 1})
    for prefix in ("accept", "release", "throw"):
        produce(peer.bootstrap, counts, 10, prefix=prefix)
    command = [*spring_listener(), peer.bootstrap, share_group.group_id, topic]
    with ChildProcess(command, stderr_path=tmp_path / "spring.log") as listener:
        expected = {f"{offset} 1 accept{offset}" for offset in range(10)}
        expected |= {f"{offset} 1 release{offset - 10}" for offset in range(10, 20)}
        expected |= {f"{offset} 2 release{offset - 10}" for offset in range(10, 20)}
        expected |= {f"{offset} 1 throw{offset - 20}" for offset in range(20, 30)}
        wait_until(
            lambda: len(listener.stdout_lines) >= len(expected),
            SETTLE_S,
            "all deliveries",
            listener.output,
        )
        produce(peer.bootstrap, counts, 1, prefix="last")
        expected.add("30 1 last0")
        wait_until(
            lambda: "30 1 last0" in listener.stdout_lines, SETTLE_S, "the last", listener.output
        )
        assert sorted(listener.stdout_lines) == sorted(expected)
        assert listener.popen.stdin is not None
        listener.popen.stdin.close()
        assert listener.wait_exit(STOP_S) == 0, listener.output()
