"""Errors of sockets and of OpenSSL in words."""

from __future__ import annotations

import socket
import ssl

import pytest

from groupd.client.errors import reason


def failed_ssl(name: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {name}] tlsv13 alert (_ssl.c:2580)")
    error.reason = name
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(111, "Connect call failed ('::1', 9)"), "Connection refused"),
        (ConnectionResetError("the connection was closed"), "the connection was closed"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (failed_ssl("CERTIFICATE_REQUIRED"), "certificate required"),
    ],
)
def test_reasons(error: OSError, words: str) -> None:
    assert reason(error) == words
