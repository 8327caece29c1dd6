"""`groupd health` against servers that are ready, busy, odd or not there."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from groupd.coordinator.cli.main import main


@contextmanager
def server(answer: bytes) -> Iterator[int]:
    """One connection is answered with these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(5)


def health(port: int) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["health", "--admin", f"127.0.0.1:{port}"])
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize(
    ("answer", "code", "shown"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nready\n", 0, "ready\n"),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\nstopping\n", 1, "stopping\n"),
        (b"\x00\x00\x00\x04 no http\r\n", 1, ""),
        (b"", 1, ""),
    ],
    ids=["ready", "not ready", "another protocol", "hangs up"],
)
def test_health(answer: bytes, code: int, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    with server(answer) as port:
        assert health(port) == code
    captured = capsys.readouterr()
    assert captured.out == shown
    assert len(captured.err.splitlines()) == (0 if shown else 1)


def test_nobody_there(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    assert health(port) == 1
    assert f"no answer from 127.0.0.1:{port}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["health", "--timeout", "-1"],
        ["health", "--timeout", "0"],
        ["health", "--admin", "127.0.0.1:0"],
    ],
    ids=" ".join,
)
def test_numbers_that_make_no_sense_are_one_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
