"""A client that connects again still waits for what it owes to a quota
(`docs/spec/security.md#5.1`)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from groupd.protocol.records.batch_builder import encode_batch
from tests.support.daemon import Daemon
from tests.support.peer import running
from tests.support.wire_client import WireClient

pytestmark = pytest.mark.skipif(
    "os.environ.get('GROUPD_PEER') == 'kafka'", reason="Kafka forgets it with the connection"
)

RATE = 20_000
BATCH = encode_batch(0, -1, 1_700_000_000_000, [(None, bytes(250_000))], -1, -1, -1, False)


def produce(client: WireClient) -> int:
    """How long to wait, in ms."""
    partition = {"index": 0, "records": BATCH}
    topics = [{"name": "orders", "partition_data": [partition]}]
    reply = client.call(
        "Produce", 9, acks=1, timeout=1000, transactional_id=None, topic_data=topics
    )
    throttle: int = reply["throttle_time"]
    return throttle


def test_se_97_a_new_connection_waits_for_what_was_produced_on_another_one(tmp_path: Path) -> None:
    with running(Daemon(tmp_path, topics={"orders": 1})) as daemon:
        with WireClient(daemon.host, daemon.port, "admin") as client:
            operation = {"key": "producer_byte_rate", "value": float(RATE), "remove": False}
            entity = [{"entity_type": "client-id", "entity_name": None}]
            entries = [{"entity": entity, "ops": [operation]}]
            reply = client.call("AlterClientQuotas", 1, entries=entries, validate_only=False)
            assert reply["entries"][0]["error_code"] == 0
        with WireClient(daemon.host, daemon.port) as client:
            told_ms, told_at = produce(client), time.monotonic()
        assert told_ms > 2000
        with WireClient(daemon.host, daemon.port) as client:
            assert client.call("ApiVersions", 0)["error_code"] == 0
            at_once_s = time.monotonic() - told_at
            produce(client)
            waited_s = time.monotonic() - told_at
        assert waited_s >= told_ms / 1000 - 0.1
        assert at_once_s < waited_s
