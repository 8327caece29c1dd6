"""Connections that say nothing for `connections.max.idle.ms` are closed; busy ones are not."""

from __future__ import annotations

import time
from pathlib import Path

from tests.support.peer import make_peer
from tests.support.raw import RawConnection

IDLE_MS = 1500


def test_an_idle_connection_is_closed_and_a_busy_one_is_kept(tmp_path: Path) -> None:
    peer = make_peer(tmp_path, settings={"connections.max.idle.ms": str(IDLE_MS)})
    try:
        peer.start()
        with RawConnection(peer.port) as idle, RawConnection(peer.port) as busy:
            assert idle.works()
            deadline = time.monotonic() + 15
            idle.socket.settimeout(IDLE_MS / 1000 / 5)
            while True:
                assert time.monotonic() < deadline, "the idle connection is still open"
                assert busy.works()
                try:
                    assert idle.socket.recv(1) == b""
                    break
                except TimeoutError:
                    continue
                except ConnectionResetError:
                    break
            assert busy.works()
        peer.stop()
    finally:
        peer.close()
