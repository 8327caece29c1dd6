"""1,000 clients log in with SCRAM at the same moment: by how much the event loop comes too late.

All connections are there before the first message is sent. Then all clients take each step of
SCRAM together: everybody's message is under way before the first answer is read. The figure is the
daemon's own: the longest stall since its start. It counts what the clock says, so on a busy machine
also the work of others.
"""

from __future__ import annotations

import ssl
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tests.bench.daemon_process import DaemonProcess
from tests.bench.figures import Workload, interleaved
from tests.bench.plan import Plan
from tests.bench.security.variants import tls_settings
from tests.support.raw import RawConnection, frame
from tests.support.sasl_frames import authenticate, handshake, read_authenticated
from tests.support.scram_client import ScramClient

CLIENTS = 1_000
QUICK_CLIENTS = 20
THREADS = 16
"""Threads for TLS handshakes, which block."""
MECHANISM = "SCRAM-SHA-512"
USER, PASSWORD = "alice", "alice-pw"
TIMEOUT_S = 60.0
PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
STALL = "groupd_event_loop_stall_seconds"


def measure(plan: Plan) -> Iterator[Workload]:
    count = QUICK_CLIENTS if plan.quick else CLIENTS
    name = f"{count:,} clients log in at once with {MECHANISM}"
    if not plan.wants(name):
        return
    cpu_ms: dict[str, list[float]] = {}

    def run(peer: str) -> float:
        stall_ms, used_ms = _storm(peer, count)
        cpu_ms.setdefault(peer, []).append(used_ms)
        return stall_ms

    peers = [f"groupd, {protocol}" for protocol in PROTOCOLS]
    stalls = interleaved(plan.runs, peers[1:] if plan.quick else peers, run)
    yield Workload(f"{name}: longest stall", "ms", stalls)
    yield Workload(f"{name}: processor time", "ms", cpu_ms)


def _storm(peer: str, count: int) -> tuple[float, float]:
    """The longest stall and the processor time of a storm of logins, in milliseconds."""
    protocol = peer.partition(", ")[2]
    with tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory:
        path = Path(directory)
        users = path / "users"
        users.write_text(f"{MECHANISM}=[name={USER},password={PASSWORD}]\n")
        users.chmod(0o600)
        settings = {
            "listeners": f"{protocol}://127.0.0.1:0",
            "sasl.enabled.mechanisms": MECHANISM,
            "groupd.scram.users.file": str(users),
            **tls_settings(path),
        }
        flags = [flag for key, value in settings.items() for flag in ("--set", f"{key}={value}")]
        with DaemonProcess("--store", "memory://", *flags, data_dir=path) as daemon:
            time.sleep(0.1)
            before_s = daemon.cpu_seconds()
            _log_in(daemon.kafka, count, tls=protocol == "SASL_SSL")
            used_s = daemon.cpu_seconds() - before_s
            return daemon.metric(STALL) * 1000, used_s * 1000


def _log_in(address: tuple[str, int], count: int, *, tls: bool) -> None:
    """Lets all clients log in together. Raises AssertionError if one cannot."""
    with ExitStack() as stack, ThreadPoolExecutor(THREADS) as threads:
        opened = list(threads.map(partial(_connect, address, tls), range(count)))
        connections = [stack.enter_context(one) for one in opened]
        clients = [ScramClient(MECHANISM, USER, PASSWORD, f"nonce-{i}") for i in range(count)]
        _together(connections, [handshake(MECHANISM)] * count)
        firsts = _together(connections, [authenticate(client.first()) for client in clients])
        finals = list(
            threads.map(
                lambda client, reply: authenticate(client.final(read_authenticated(reply).token)),
                clients,
                firsts,
            )
        )
        for client, reply in zip(clients, _together(connections, finals), strict=True):
            last = read_authenticated(reply)
            assert last.error == 0, last.message
            assert client.verifies(last.token)


def _connect(address: tuple[str, int], tls: bool, _: int) -> RawConnection:
    connection = RawConnection(address[1], timeout_s=TIMEOUT_S)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection.socket = context.wrap_socket(connection.socket)
    return connection


def _together(connections: Sequence[RawConnection], requests: Sequence[bytes]) -> list[bytes]:
    """Sends all requests, then reads all replies; their bodies."""
    for connection, request in zip(connections, requests, strict=True):
        connection.send(frame(request))
    return [connection.reply()[1] for connection in connections]
