"""A daemon with few file descriptors accepts no connection before it has none left."""

from __future__ import annotations

import select
from pathlib import Path

from tests.support.daemon import Daemon
from tests.support.metrics import samples, total
from tests.support.process import wait_until
from tests.support.raw import RawConnection, api_versions

DESCRIPTORS, ALLOWED, TRIED = 300, 150, 400


class Poor(Daemon):
    def command(self) -> list[str]:
        return ["sh", "-c", f'ulimit -n {DESCRIPTORS} && exec "$@"', "-", *super().command()]


def test_clients_beyond_the_descriptors_wait_and_the_others_are_served(tmp_path: Path) -> None:
    daemon = Poor(tmp_path)
    daemon.start()
    try:
        connections = [RawConnection(daemon.port) for _ in range(TRIED)]
        served, waiting = connections[:ALLOWED], connections[ALLOWED:]
        for connection in connections:
            connection.send(api_versions(1))
        assert all(connection.reply()[0] == 1 for connection in served)
        wait_until(
            lambda: total(daemon.admin_url, "groupd_acceptors_blocked") == 1, 20, "a full broker"
        )
        readable, _, _ = select.select([one.socket for one in waiting], [], [], 0)
        assert readable == []
        (allowed,) = samples(daemon.admin_url, "groupd_connections_allowed")
        assert allowed.value == ALLOWED
        for connection in served[:10]:
            connection.close()
        assert all(connection.reply()[0] == 1 for connection in waiting[:10])
        for connection in waiting:
            connection.close()
        assert all(connection.works() for connection in served[10:])
        for _ in range(10):
            with RawConnection(daemon.port) as later:
                assert later.works()
        for connection in served[10:]:
            connection.close()
        daemon.stop()
        lines = (tmp_path / "groupd.log").read_text().splitlines()
        (line,) = [line for line in lines if "clients wait" in line]
        assert 'limit="file descriptors"' in line
        (warning,) = [line for line in lines if "too few file descriptors" in line]
        assert f"connections_allowed={ALLOWED}" in warning
    finally:
        daemon.close()
