"""A stand-in for the broker: it does what a test of the campaign's own parts says."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.fuzz.talk import Talk

TIMEOUT_S = 10.0
"""How long it waits for a client, and for what the client sends."""


@contextmanager
def broker(
    behave: Callable[[socket.socket], None], context: ssl.SSLContext | None = None
) -> Iterator[tuple[str, int]]:
    """Listens at the address that it yields and takes one connection, with TLS if there is a
    `context`. `behave` talks over it in a thread; then the connection is closed. The client may
    close it earlier: an OSError ends the thread without a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(TIMEOUT_S)

        def serve() -> None:
            with suppress(OSError):
                connection, _ = server.accept()
                connection.settimeout(TIMEOUT_S)
                with connection:
                    if context is None:
                        behave(connection)
                    else:
                        with context.wrap_socket(connection, server_side=True) as secure:
                            behave(secure)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()
        finally:
            thread.join(2 * TIMEOUT_S)


def carry_out(talk: Talk) -> Talk:
    """Talks until the talk is done, and closes it. Raises Wrong."""
    connection = talk.line.socket
    more = True
    try:
        while not talk.done:
            wanted = [connection] if more else []
            readable, writable, _ = select.select([connection], wanted, [], TIMEOUT_S)
            assert readable or writable
            if readable:
                talk.read()
            more = not talk.closed and talk.write()
    finally:
        talk.close()
    return talk
