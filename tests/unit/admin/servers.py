"""The HTTP server of an admin port."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from groupd.coordinator.admin.access import AdminAccess, Role
from groupd.coordinator.admin.http_messages import ControlHandler, HttpHandler
from groupd.coordinator.admin.http_server import AdminServer
from groupd.coordinator.admin.tls import AdminTls


def server_of(
    answer: HttpHandler,
    control: ControlHandler | None = None,
    *,
    hosts: Iterable[str] = (),
    access: AdminAccess | None = None,
    tls: AdminTls | None = None,
    actions: Mapping[str, ControlHandler] | None = None,
) -> AdminServer:
    """A server without credentials and TLS, unless they are given."""
    everybody = AdminAccess(Role.ADMIN, None, {})
    return AdminServer(
        answer, control, hosts, access or everybody, tls, actions or {}, lambda: None
    )
