"""A daemon with few file descriptors refuses connections before it has none left."""

from __future__ import annotations

from pathlib import Path

from tests.support.daemon import Daemon
from tests.support.metrics import samples
from tests.support.raw import RawConnection, api_versions

DESCRIPTORS, ALLOWED, TRIED = 300, 150, 400


class Poor(Daemon):
    def command(self) -> list[str]:
        return ["sh", "-c", f'ulimit -n {DESCRIPTORS} && exec "$@"', "-", *super().command()]


def test_clients_beyond_the_descriptors_are_refused_and_the_others_served(tmp_path: Path) -> None:
    daemon = Poor(tmp_path)
    daemon.start()
    try:
        connections = [RawConnection(daemon.port) for _ in range(TRIED)]
        served = [connection for connection in connections if asked(connection)]
        assert len(served) == ALLOWED
        for connection in connections:
            if connection not in served:
                connection.socket.close()
        assert all(map(asked, served))
        (allowed,) = samples(daemon.admin_url, "groupd_connections_allowed")
        assert allowed.value == ALLOWED
        for connection in served[:10]:
            connection.socket.close()
        for _ in range(10):
            with RawConnection(daemon.port) as later:
                assert asked(later)
        for connection in served[10:]:
            connection.socket.close()
        daemon.stop()
        lines = (tmp_path / "groupd.log").read_text().splitlines()
        refused = [line for line in lines if 'event="connection refused"' in line]
        assert len(refused) <= 100
        assert all('limit="file descriptors"' in line for line in refused)
        left_out = TRIED - ALLOWED - len(refused)
        assert any(f'of="connection refused" left_out={left_out}' in line for line in lines)
        (warning,) = [line for line in lines if "too few file descriptors" in line]
        assert f"connections_allowed={ALLOWED}" in warning
    finally:
        daemon.close()


def asked(connection: RawConnection) -> bool:
    """Whether it is served."""
    try:
        connection.socket.sendall(api_versions(1))
        return bool(connection.socket.recv(1 << 16))
    except ConnectionError:
        return False
