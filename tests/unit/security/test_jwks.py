"""Where the keys come from: SE-39, and how often they are asked for."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.security.sasl import jwks as module
from groupd.coordinator.security.sasl.jwks import (
    FileKeys,
    HttpsKeys,
    UnknownKids,
    UnusableJwks,
    fetch_https,
    parse_jwks,
    pause_after,
    signing_keys,
)
from tests.support.tokens import jwks, private_key, public_entry

FIRST = public_entry(private_key("ES256"), "first")
SECOND = public_entry(private_key("EdDSA"), "second")


def kids(keys: Any) -> list[str | None]:
    return [key.kid for key in keys]


def test_only_keys_that_check_signatures_count() -> None:
    secret = {"kty": "oct", "k": "c2VjcmV0", "kid": "secret"}
    broken = {"kty": "RSA", "n": "!", "e": "AQAB", "kid": "broken"}
    encryption = {**FIRST, "use": "enc", "kid": "encryption"}
    found = parse_jwks(jwks(secret, broken, encryption, FIRST, SECOND, {"kty": 7}))
    assert kids(found) == ["first", "second"]


def test_a_key_may_be_for_one_algorithm() -> None:
    key = private_key("RS256")
    assert parse_jwks(jwks(public_entry(key, "k", alg="PS256")))[0].algorithms == ("PS256",)
    assert "RS512" in parse_jwks(jwks(public_entry(key, "k")))[0].algorithms
    with pytest.raises(UnusableJwks):
        parse_jwks(jwks(public_entry(key, "k", alg="HS256")))


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"keys":7}', b'{"keys":[]}', b'{"keys":[7]}']
)
def test_no_jwks(text: bytes) -> None:
    with pytest.raises(UnusableJwks):
        parse_jwks(text)


def rewrite(path: Path, text: bytes) -> None:
    """Writes the file with a later time, also where the file system's times are coarse."""
    before = path.stat().st_mtime_ns
    path.write_bytes(text)
    os.utime(path, ns=(before + 1_000_000, before + 1_000_000))


def test_a_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    """SE-39."""
    path = tmp_path / "jwks.json"
    path.write_bytes(jwks(FIRST))
    keys = FileKeys(path)
    assert kids(keys.current()) == ["first"]
    rewrite(path, jwks(SECOND))
    assert kids(keys.current()) == ["second"]
    with capture_logs() as lines:
        rewrite(path, b"{")
        assert kids(keys.current()) == kids(keys.current()) == ["second"]
        path.unlink()
        assert kids(keys.current()) == ["second"]
    assert [line["log_level"] for line in lines] == ["warning", "warning"]
    path.write_bytes(jwks(FIRST))
    assert kids(keys.current()) == ["first"]


@pytest.mark.parametrize(
    "url", ["http://idp/keys", "file://host/x", "", "https:///x", "file:///no"]
)
def test_addresses_that_cannot_be_used(url: str) -> None:
    with pytest.raises(ConfigError):
        signing_keys(url, 1000)


def test_unknown_kids_ask_rarely() -> None:
    now = [0.0]
    kids = UnknownKids(lambda: now[0])
    assert kids.worth_asking("a")
    assert not kids.worth_asking("a")
    assert not kids.worth_asking("x" * 1001)
    assert [kids.worth_asking(str(n)) for n in range(20)] == [True] * 15 + [False] * 5
    now[0] = 60.0
    assert kids.worth_asking("a")
    assert kids.worth_asking("new")


def test_pauses_grow() -> None:
    assert 0.08 <= pause_after(1, 0.1, 10) <= 0.12
    assert 0.32 <= pause_after(3, 0.1, 10) <= 0.48
    assert 8 <= pause_after(1000, 0.1, 10) <= 12


class Provider:
    """Answers what it is told to; each answer may be awaited."""

    def __init__(self, *answers: bytes | Exception) -> None:
        self.answers = list(answers)
        self.asked = threading.Semaphore(0)

    def __call__(self, url: str) -> bytes:
        self.asked.release()
        answer = self.answers.pop(0) if self.answers else OSError("nothing left")
        if isinstance(answer, Exception):
            raise answer
        return answer

    def wait(self, times: int) -> None:
        for _ in range(times):
            assert self.asked.acquire(timeout=10)


def until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(1000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError


@pytest.mark.parametrize("refresh_ms", [3_600_000, 2**62])
def test_keys_are_fetched_until_they_come_and_again_for_an_unknown_kid(
    refresh_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BACKOFF_S", 0.001)
    provider = Provider(OSError("down"), b"{", jwks(FIRST), jwks(SECOND))
    keys = HttpsKeys("https://idp.test", refresh_ms, provider)
    try:
        provider.wait(3)
        until(lambda: kids(keys.current()) == ["first"])
        keys.missed("second")
        provider.wait(1)
        until(lambda: kids(keys.current()) == ["second"])
        keys.missed("second")
        assert not provider.asked.acquire(blocking=False)
    finally:
        keys.close()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/garbage":
            self.wfile.write(b"garbage\r\n\r\n")
            return
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/keys")
            self.end_headers()
            return
        body = b"x" * (module.BYTES_MAX + 1) if self.path == "/large" else b"keys"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Writes nothing to standard error."""


def test_https_without_redirects_and_with_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, ca = _certificate(tmp_path)
    served = HTTPServer(("127.0.0.1", 0), _Handler)
    served.socket = context.wrap_socket(served.socket, server_side=True)
    thread = threading.Thread(target=served.serve_forever, args=(0.01,))
    thread.start()
    url = f"https://127.0.0.1:{served.server_address[1]}"
    try:
        with pytest.raises(OSError):  # nobody knows the certificate
            fetch_https(f"{url}/keys")
        monkeypatch.setenv("SSL_CERT_FILE", str(ca))
        assert fetch_https(f"{url}/keys") == b"keys"
        for path in ("/moved", "/large", "/garbage"):
            with pytest.raises(OSError):
                fetch_https(url + path)
    finally:
        served.shutdown()
        thread.join()
        served.server_close()


def _certificate(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """A server's context for 127.0.0.1, and the file with its authority."""
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    path = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return context, path
