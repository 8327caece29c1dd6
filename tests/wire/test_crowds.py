"""SE-85: a crowd of connections that stop halfway, and a healthy consumer behind it.

`GROUPD_CROWD` says how large the crowd is; SE-85 means 10,000, which need as many descriptors.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
import trustme

from tests.bench.proc import resident_bytes
from tests.support.certificates import client_context, client_hello, keystore
from tests.support.daemon import Daemon
from tests.support.metrics import total
from tests.support.peer import FAST_SETTINGS, running
from tests.support.process import wait_until
from tests.support.sasl_client import plain_config
from tests.support.wire_client import WireClient

HOST = "127.0.0.1"
CROWD = int(os.environ.get("GROUPD_CROWD", "100"))
DEADLINE_MS = 3000 + 3 * CROWD
"""The deadline of handshakes and logins: all clients have come before the first one has to go."""
SETTLE_S = 60.0
IN_TIME_S = 10.0
"""A consumer has so long to connect, log in, join, get its partition and commit."""
BYTES_EACH = 64 * 1024
"""The most memory that one connection may cost besides what it has sent."""
BASE_BYTES = 64 << 20
FRAME_BYTES = 512 * 1024
CA = trustme.CA()
LISTENERS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT")

PARTS = {
    "silent": ("ssl", b""),
    "half a handshake": ("ssl", client_hello(client_context(CA))),
    "half a frame": ("sasl_plaintext", struct.pack(">i", FRAME_BYTES) + bytes(FRAME_BYTES // 2)),
}
"""What each of the crowd sends before it stops, and to which listener."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    directory = tmp_path_factory.mktemp("crowd")
    certificate = CA.issue_cert(HOST, common_name="broker")
    settings = {
        **FAST_SETTINGS,
        "listeners": ",".join(f"{name}://{HOST}:0" for name in LISTENERS),
        "ssl.keystore.location": str(keystore(directory / "broker.pem", certificate)),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain_config({"bob": "pw"}),
        "tls_handshake_timeout_ms": str(DEADLINE_MS),
        "authentication_timeout_ms": str(DEADLINE_MS),
        "groupd.authentication.failures.per.ip": "0",
        "groupd.authentication.failures.per.user": "0",
    }
    with running(Daemon(directory, settings=settings, topics={"orders": 1})) as made:
        yield made


def descriptors(daemon: Daemon) -> int:
    return len(os.listdir(f"/proc/{daemon.pid}/fd"))


def open_connections(daemon: Daemon) -> float:
    return total(daemon.admin_url, "groupd_connections_open")


def come(stack: ExitStack, port: int, part: bytes) -> int:
    """Opens a crowd of connections that send `part`, or as much of it as the broker takes. How many
    bytes were sent."""
    sent = 0
    for _ in range(CROWD):
        one = stack.enter_context(socket.create_connection((HOST, port), 20))
        one.setblocking(False)
        with suppress(BlockingIOError, ConnectionError):
            sent += one.send(part) if part else 0
    return sent


def consume(daemon: Daemon, listener: str, group: str) -> None:
    """Connects, logs in, joins, gets the partition and commits."""
    tls = client_context(CA) if listener == "ssl" else None
    with WireClient(HOST, daemon.ports[listener], tls=tls) as client:
        if listener != "ssl":
            assert client.call("SaslHandshake", 1, mechanism="PLAIN")["error_code"] == 0
            login = client.call("SaslAuthenticate", 1, auth_bytes=b"\0bob\0pw")
            assert login["error_code"] == 0
        member = {"group_id": group, "member_id": "healthy"}
        reply = client.call(
            "ConsumerGroupHeartbeat",
            1,
            **member,
            member_epoch=0,
            rebalance_timeout=10_000,
            subscribed_topic_names=["orders"],
            topic_partitions=[],
        )
        assert reply["error_code"] == 0
        assert reply["assignment"]["topic_partitions"][0]["partitions"] == [0]
        offset = {"partition_index": 0, "committed_offset": 1}
        committed = client.call(
            "OffsetCommit",
            9,
            group_id=group,
            member_id="healthy",
            generation_id_or_member_epoch=reply["member_epoch"],
            topics=[{"name": "orders", "partitions": [offset]}],
        )
        assert committed["topics"][0]["partitions"][0]["error_code"] == 0


@pytest.mark.parametrize("stops", PARTS)
def test_se_85_who_stops_halfway_keeps_nobody_out(daemon: Daemon, stops: str) -> None:
    listener, part = PARTS[stops]
    consume(daemon, listener, f"{stops} before")
    wait_until(lambda: open_connections(daemon) == 0, SETTLE_S, "nobody is connected")
    before, memory = descriptors(daemon), resident_bytes(daemon.pid)
    with ExitStack() as stack:
        started = time.monotonic()
        sent = come(stack, daemon.ports[listener], part)
        came = time.monotonic()
        consume(daemon, listener, stops)
        served = time.monotonic()
        crowd = open_connections(daemon)
        grown = resident_bytes(daemon.pid) - memory
        wait_until(
            lambda: open_connections(daemon) == 0,
            DEADLINE_MS / 1000 + SETTLE_S,
            "all are gone after the deadline",
        )
        gone = time.monotonic()
        wait_until(lambda: descriptors(daemon) <= before, SETTLE_S, "the descriptors are back")
    print(
        f"{stops}: {CROWD} came in {came - started:.1f} s and sent {sent >> 20} MB, {crowd:.0f} "
        f"were there, the consumer took {served - came:.2f} s, memory grew by {grown >> 20} MB, "
        f"all were gone after {gone - started:.1f} s, at most {DEADLINE_MS / 1000:.1f} s each"
    )
    assert served - came < IN_TIME_S
    assert grown < BASE_BYTES + CROWD * BYTES_EACH + sent
    # Some who stop halfway in a handshake have made room for the consumer.
    assert crowd >= CROWD * 0.9
