"""A recording of clients that had to wait is replayed reply by reply."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from groupd.protocol.records.batch_builder import encode_batch
from tests.daemon.test_record import replayed, serving
from tests.support.daemon import Daemon
from tests.support.wire_client import WireClient

ANY_CLIENT = ({"entity_type": "client-id", "entity_name": None},)


def quota(client: WireClient, key: str, value: float) -> None:
    operations = ({"key": key, "value": value, "remove": False},)
    entry = {"entity": ANY_CLIENT, "ops": operations}
    reply = client.call("AlterClientQuotas", 1, entries=(entry,), validate_only=False)
    assert [one["error_code"] for one in reply["entries"]] == [0]


def produce(client: WireClient, size: int) -> int:
    batch = encode_batch(0, -1, 1_700_000_000_000, [(None, bytes(size))], -1, -1, -1, False)
    partition = {"index": 0, "records": batch}
    topics = ({"name": "orders", "partition_data": (partition,)},)
    fields: dict[str, Any] = {"acks": 1, "timeout": 1000, "topic_data": topics}
    reply = client.call("Produce", 9, **fields, transactional_id=None)
    throttle_ms: int = reply["throttle_time"]
    return throttle_ms


def throttled(daemon: Daemon) -> int:
    """What the first produce has to wait. The small ones after it wait too, unless the machine
    was slow meanwhile."""
    with WireClient(daemon.host, daemon.port, "slow") as client:
        waits = [produce(client, size) for size in (102_000, 500, 500)]
        client.call("ApiVersions", 0)
    return waits[0]


def test_no_client_waits_for_the_time_of_its_requests(tmp_path: Path) -> None:
    """A replay takes other times, so they do not count in a recording (docs/recording.md)."""
    file = tmp_path / "recording"
    asked = {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}
    with serving(tmp_path, file) as daemon, WireClient(daemon.host, daemon.port) as client:
        quota(client, "request_percentage", 1e-6)
        waits = [client.call("Heartbeat", 4, **asked)["throttle_time"] for _ in range(20)]
    assert set(waits) == {0}
    ended = replayed(file)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_waits_are_replayed(tmp_path: Path) -> None:
    file = tmp_path / "first"
    with serving(tmp_path, file) as daemon:
        with WireClient(daemon.host, daemon.port) as client:
            quota(client, "producer_byte_rate", 10_000)
            quota(client, "request_percentage", 50)
        assert throttled(daemon) > 0
    ended = replayed(file)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    # Quotas that are there when a recording begins hold in its replay, too.
    again = tmp_path / "second"
    with serving(tmp_path, again) as daemon:
        assert throttled(daemon) > 0
    ended = replayed(again)
    assert ended.returncode == 0, ended.stdout + ended.stderr
