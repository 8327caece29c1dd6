"""The daemon as an operator meets it: ready line, refusals, signals, files, admin port."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support import daemon as support
from tests.support.daemon import READY, ROOT, STOP_TIMEOUT_S, Daemon
from tests.support.process import ChildProcess, wait_until
from tests.support.raw import RawConnection, fetch

USAGE = 2
START_S = 20.0


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path / "daemon")
    yield made
    made.close()


def refused(*arguments: str, data_dir: Path, cwd: Path = ROOT) -> str:
    """Runs `serve`, which must end with exit code 2; returns its single line on stderr."""
    listen = [] if "--listen" in arguments else ["--listen", "127.0.0.1:0"]
    line = support.refused(["--data-dir", str(data_dir), *listen, *arguments], cwd)
    assert "Traceback" not in line
    return line


def get(daemon: Daemon, path: str) -> tuple[int, str]:
    """(status, body) from the admin port."""
    try:
        with urllib.request.urlopen(daemon.admin_url + path, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


# Start and stop


def test_the_ready_line_is_all_that_is_on_stdout_and_tells_the_real_ports(daemon: Daemon) -> None:
    daemon.start()
    with RawConnection(daemon.port) as connection:
        assert connection.works()
    assert get(daemon, "/readyz")[0] == 200
    daemon.stop()
    (line,) = daemon.process.stdout_lines
    assert READY.match(line)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_exit_code_0_within_5_s(
    daemon: Daemon, number: signal.Signals
) -> None:
    daemon.start()
    with RawConnection(daemon.port) as connection:
        assert connection.works()
        daemon.process.send_signal(number)
        assert daemon.process.wait_exit(STOP_TIMEOUT_S) == 0
        assert connection.is_closed_by_peer()


def test_a_signal_ends_it_although_a_request_waits(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "daemon", topics={"t": 1})
    try:
        daemon.start()
        with RawConnection(daemon.port) as connection:
            connection.send(fetch(1, "t", 0, 0, 60_000))
            assert connection.socket.fileno() >= 0
            daemon.stop()
    finally:
        daemon.close()


def test_a_second_signal_ends_it_at_once(daemon: Daemon) -> None:
    daemon.start()
    daemon.process.send_signal(signal.SIGSTOP)
    daemon.process.send_signal(signal.SIGTERM)
    daemon.process.send_signal(signal.SIGINT)
    daemon.process.send_signal(signal.SIGCONT)
    # Two signals are pending at once: whichever is handled first, it must not hang.
    daemon.process.wait_exit(1.5)


def test_it_starts_again_after_sigterm_and_after_sigkill_with_its_topics(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "daemon", topics={"kept": 3})
    try:
        daemon.start()
        port = daemon.port
        daemon.stop()
        daemon.restart()
        daemon.kill()
        daemon.restart()
        assert daemon.port == port
        daemon.stop()
    finally:
        daemon.close()


def test_groupd_is_the_same_as_python_m_coordinator() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "groupd", "--help"],
        capture_output=True,
        text=True,
        timeout=START_S,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0
    assert "serve" in done.stdout


# Refusals: exit code 2 and one line that says what and how to mend it


def test_a_busy_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert address in refused("--listen", address, data_dir=tmp_path / "a")
        assert address in refused("--admin", address, data_dir=tmp_path / "b")


def test_a_data_dir_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a directory")
    assert str(file) in refused(data_dir=file / "data")
    assert str(file) in refused(data_dir=file)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a place that root cannot write either")
def test_an_unwritable_data_dir_is_named() -> None:
    assert "/proc/groupd" in refused(data_dir=Path("/proc/groupd"))


def test_a_locked_data_dir_is_named_and_its_owner_goes_on(daemon: Daemon) -> None:
    daemon.start()
    assert str(daemon.data_dir) in refused(data_dir=daemon.data_dir)
    with RawConnection(daemon.port) as connection:
        assert connection.works()
    daemon.stop()


def test_a_store_of_a_newer_schema_is_refused_and_left_alone(daemon: Daemon) -> None:
    daemon.start()
    daemon.stop()
    stores = [
        path
        for path in daemon.data_dir.rglob("*")
        if path.is_file() and path.read_bytes()[:15] == b"SQLite format 3"
    ]
    assert stores
    for path in stores:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE meta SET schema_version = schema_version + 1")
    before = {path: path.read_bytes() for path in stores}
    line = refused(data_dir=daemon.data_dir)
    assert re.search("newer", line)
    assert {path: path.read_bytes() for path in stores} == before


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--no-such-flag"], "--no-such-flag"),
        (["--set", "no.such.key=1"], "no.such.key"),
        (["--set", "num.partitions=0"], "num.partitions"),
        (["--set", "num.partitions=many"], "num.partitions"),
        (["--set", "num.partitions"], "num.partitions"),
        (["--set", "group.consumer.session.timeout.ms=1"], "group.consumer.session.timeout.ms"),
        (["--set", "auto.create.topics.enable=perhaps"], "auto.create.topics.enable"),
        (["--topic", "t"], "t"),
        (["--topic", "t:0"], "t:0"),
        (["--topic", "not/legal:1"], "not/legal"),
        (["--listen", "nonsense"], "nonsense"),
        (["--listen", "127.0.0.1:99999"], "99999"),
        (["--admin", "127.0.0.1"], "127.0.0.1"),
        (["--advertised", "127.0.0.1:0"], "port 0"),
        (["--log-level", "loud"], "loud"),
        (["--log-format", "xml"], "xml"),
        (["--store", "nonsense://x"], "nonsense"),
        (["--config", "/no/such/file.toml"], "/no/such/file.toml"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_on_the_command_line_is_named(
    tmp_path: Path, arguments: list[str], named: str
) -> None:
    assert named in refused(*arguments, data_dir=tmp_path / "data")


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("x.toml", 'no = "such"\n', "no"),
        ("x.toml", "not toml at all\n", "x.toml"),
        ("x.toml", "[num]\npartitions = 0\n", "num.partitions"),
        ("x.properties", "no.such.key=1\n", "no.such.key"),
        ("x.properties", "num.partitions=0\n", "num.partitions"),
        ("x.properties", "no equals sign\n", "x.properties"),
    ],
)
def test_a_mistake_in_a_config_file_is_named(
    tmp_path: Path, name: str, text: str, named: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert named in refused("--config", str(path), data_dir=tmp_path / "data")


# Configuration


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("flat.toml", '"num.partitions" = 7\n"auto.create.topics.enable" = false\n'),
        ("tables.toml", "[num]\npartitions = 7\n[auto.create.topics]\nenable = false\n"),
        ("x.properties", "# comment\nnum.partitions=7\n\nauto.create.topics.enable = false\n"),
    ],
)
def test_a_config_file_sets_values_and_flags_go_over_it(
    tmp_path: Path, name: str, text: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    daemon = Daemon(
        tmp_path / "daemon",
        settings={"group.max.size": "5"},
        arguments=["--config", str(path), "--set", "num.partitions=8"],
    )
    try:
        daemon.start()
        status, body = get(daemon, "/config")
        shown = json.loads(body)
        flat = json.dumps(shown)
        assert status == 200
        assert re.search(r'"num\.partitions": ("8"|8|\{[^}]*8)', flat), flat
        assert re.search(r'"auto\.create\.topics\.enable": ("false"|false|\{[^}]*false)', flat)
        assert re.search(r'"group\.max\.size": ("5"|5|\{[^}]*5)', flat)
        daemon.stop()
    finally:
        daemon.close()


def test_the_order_of_set_does_not_matter(tmp_path: Path) -> None:
    value, bound = (
        ("group.consumer.session.timeout.ms", "9000"),
        ("group.consumer.min.session.timeout.ms", "5000"),
    )
    for index, order in enumerate([(value, bound), (bound, value)]):
        daemon = Daemon(tmp_path / str(index), settings=dict(order))
        try:
            daemon.start()
            daemon.stop()
        finally:
            daemon.close()


# The admin port


def test_config_shows_the_real_addresses(daemon: Daemon) -> None:
    daemon.start()
    options = json.loads(get(daemon, "/config")[1])["options"]
    assert options["listen"] == ["127.0.0.1", daemon.port]
    assert options["admin"] == ["127.0.0.1", daemon.admin_port]


def test_health_and_metrics_are_served(daemon: Daemon) -> None:
    daemon.start()
    assert get(daemon, "/healthz")[0] == 200
    assert get(daemon, "/readyz")[0] == 200
    status, text = get(daemon, "/metrics")
    assert status == 200
    assert re.search(r"^# TYPE groupd_\w+ (counter|gauge|histogram)$", text, re.MULTILINE)
    assert get(daemon, "/nothing")[0] == 404
    daemon.stop()


def test_bad_requests_to_the_admin_port_harm_nobody(daemon: Daemon) -> None:
    daemon.start()
    for data in (
        b"\x00\x01\x02\r\n\r\n",
        b"GET\r\n\r\n",
        b"G" * 100_000,
        b"POST /healthz HTTP/1.1\r\n",
    ):
        with socket.create_connection(("127.0.0.1", daemon.admin_port), timeout=5) as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1000)
            except ConnectionError:
                continue
    assert get(daemon, "/healthz")[0] == 200
    daemon.stop()


def test_json_logs_are_json(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "daemon", arguments=["--log-format", "json"])
    try:
        daemon.start()
        daemon.stop()
        lines = daemon.process.stderr().splitlines()
        assert lines
        assert all(isinstance(json.loads(line), dict) for line in lines)
    finally:
        daemon.close()


def test_memory_store_leaves_no_files(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "daemon", arguments=["--store", "memory://"])
    try:
        daemon.start()
        daemon.stop()
        files = [path for path in daemon.data_dir.rglob("*") if path.is_file()]
        assert not any(path.read_bytes()[:15] == b"SQLite format 3" for path in files)
    finally:
        daemon.close()


def test_the_default_data_dir_is_beside_the_caller(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "groupd", "serve"]
    command += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    with ChildProcess(
        command,
        stderr_path=tmp_path / "log",
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        wait_until(lambda: process.stdout_lines, START_S, "the ready line", process.output)
        process.send_signal(signal.SIGTERM)
        assert process.wait_exit(STOP_TIMEOUT_S) == 0
    assert (tmp_path / "groupd-data").is_dir()
