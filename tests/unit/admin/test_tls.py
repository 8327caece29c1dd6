"""The admin port with credentials, over plain HTTP and TLS: real sockets, made certificates."""

from __future__ import annotations

import asyncio
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
from structlog.testing import capture_logs

from groupd.coordinator.admin import tls as tls_module
from groupd.coordinator.admin.access import admin_access
from groupd.coordinator.admin.http_messages import HttpReply, text
from groupd.coordinator.admin.http_messages import HttpRequest as Asked
from groupd.coordinator.admin.http_server import UNASKED_MAX
from groupd.coordinator.admin.tls import admin_tls
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from tests.support.loop_turns import until
from tests.unit.admin.servers import server_of

READER, OPERATOR = "reader-0123456789", "operator-0123456789"
DEADLINE_S = 10.0
AUTHORITY = trustme.CA()
STRANGERS = trustme.CA()
PATHS = ("/", "/config", "/groups/g", "/nothing-there", "/control/clock", "/metrics")


def keystore(path: Path, authority: trustme.CA = AUTHORITY, name: str = "groupd") -> Path:
    certificate = authority.issue_cert(
        "localhost",
        common_name=name,
        organization_name="Acme",
        organization_unit_name="Ops",
    )
    pem = certificate.private_key_pem.bytes() + b"".join(
        one.bytes() for one in certificate.cert_chain_pems
    )
    path.write_bytes(pem)
    return path


@pytest.fixture
def settings(tmp_path: Path) -> CoordinatorConfig:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"read {READER}\nadmin {OPERATOR}\n")
    tokens.chmod(0o600)
    trusted = tmp_path / "trusted.pem"
    AUTHORITY.cert_pem.write_to_path(trusted)
    return CoordinatorConfig(
        admin_token_file=str(tokens),
        admin_ssl_keystore_location=str(keystore(tmp_path / "server.pem")),
        admin_ssl_truststore_location=str(trusted),
        admin_ssl_client_auth="requested",
        admin_ssl_roles="admin:CN=ops,OU=Ops,O=Acme;read:CN=scraper,OU=Ops,O=Acme",
    )


class Port:
    """An admin port that answers everything, as if it listened on `host`."""

    def __init__(self, settings: CoordinatorConfig, host: str = "0.0.0.0") -> None:
        self.changes: list[bytes] = []
        self._scheme = admin_tls(settings)
        access = admin_access(settings, host)
        self.server = server_of(self._answer, self._control, access=access, tls=self._scheme)
        self.address = ("", 0)

    def _answer(self, request: Asked) -> HttpReply:
        return text("not found", 404) if request.path == ("nothing-there",) else text("a page")

    async def _control(self, request: Asked) -> HttpReply:
        self.changes.append(request.body or b"")
        return text("done")

    async def ask(
        self,
        path: str,
        token: str | None = None,
        client: ssl.SSLContext | None = None,
        *,
        method: str = "GET",
        body: bytes = b"",
    ) -> tuple[int, bytes]:
        """Status and the whole reply."""
        own = f"Authorization: Bearer {token}\r\n" if token is not None else ""
        length = f"Content-Length: {len(body)}\r\n"
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{own}{length}\r\n"
        async with asyncio.timeout(DEADLINE_S):
            host = None if client is None else "localhost"
            reader, writer = await asyncio.open_connection(
                *self.address, ssl=client, server_hostname=host
            )
            try:
                writer.write(head.encode() + body)
                reply = await reader.read()
            finally:
                writer.close()
        return int(reply.split()[1]), reply


@asynccontextmanager
async def served(settings: CoordinatorConfig, host: str = "0.0.0.0") -> AsyncIterator[Port]:
    port = Port(settings, host)
    port.address = await port.server.start("127.0.0.1", 0)
    yield port
    await port.server.close()


def client(certificate: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    AUTHORITY.configure_trust(context)
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


@pytest.fixture
def plain(settings: CoordinatorConfig) -> CoordinatorConfig:
    return CoordinatorConfig(admin_token_file=settings.admin_token_file)


async def test_before_authentication_every_page_looks_the_same(plain: CoordinatorConfig) -> None:
    async with served(plain) as port:
        replies = {await port.ask(path) for path in PATHS}
        replies |= {await port.ask(path, method="POST", body=b"{}") for path in PATHS}
        assert len(replies) == 1
        ((status, reply),) = replies
        assert status == 401
        assert b'WWW-Authenticate: Bearer realm="groupd"\r\n' in reply
        wrong = {await port.ask(path, READER + "x") for path in PATHS}
        assert [status for status, _ in wrong] == [401]
        assert (await port.ask("/healthz"))[0] == (await port.ask("/readyz"))[0] == 200
        assert port.changes == []


async def test_the_role_decides_who_may_change_something(plain: CoordinatorConfig) -> None:
    async with served(plain) as port:
        assert (await port.ask("/config", READER))[0] == 200
        assert (await port.ask("/metrics", READER))[0] == 200
        assert (await port.ask("/nothing-there", READER))[0] == 404
        assert (await port.ask("/control/clock", READER, method="POST"))[0] == 403
        assert port.changes == []
        assert (await port.ask("/control/clock", OPERATOR, method="POST", body=b"1"))[0] == 200
        assert port.changes == [b"1"]


async def test_a_token_in_the_address_counts_for_nothing(plain: CoordinatorConfig) -> None:
    async with served(plain) as port:
        for name in ("access_token", "token", "authorization"):
            assert (await port.ask(f"/config?{name}={OPERATOR}"))[0] == 401


async def test_a_large_body_of_somebody_unknown_is_not_kept(plain: CoordinatorConfig) -> None:
    async with served(plain) as port:
        body = b"x" * (512 << 10)
        assert (await port.ask("/control/clock", method="POST", body=body))[0] == 401


async def test_metrics_may_be_open_alone(plain: CoordinatorConfig) -> None:
    settings = CoordinatorConfig(admin_token_file=plain.admin_token_file, admin_metrics_open=True)
    async with served(settings) as port:
        assert (await port.ask("/metrics"))[0] == 200
        assert (await port.ask("/config"))[0] == 401


async def test_on_loopback_everybody_reads_and_changes_need_the_role(
    plain: CoordinatorConfig,
) -> None:
    async with served(plain, "127.0.0.1") as port:
        assert (await port.ask("/config"))[0] == 200
        assert (await port.ask("/control/clock", method="POST"))[0] == 401


async def test_tokens_over_tls(settings: CoordinatorConfig) -> None:
    async with served(settings) as port:
        assert (await port.ask("/healthz", client=client()))[0] == 200
        assert (await port.ask("/config", client=client()))[0] == 401
        assert (await port.ask("/config", READER, client()))[0] == 200
        status, reply = await port.ask("/config", READER, client(), method="HEAD")
        assert (status, reply.endswith(b"\r\n\r\n")) == (200, True)


async def test_certificates_have_roles(settings: CoordinatorConfig, tmp_path: Path) -> None:
    ops = client(keystore(tmp_path / "ops.pem", name="ops"))
    scraper = keystore(tmp_path / "1.pem", name="scraper")
    other = client(keystore(tmp_path / "2.pem", name="other"))
    async with served(settings) as port:
        assert (await port.ask("/control/clock", None, ops, method="POST"))[0] == 200
        assert (await port.ask("/metrics", None, client(scraper)))[0] == 200
        assert (await port.ask("/control/clock", None, client(scraper), method="POST"))[0] == 403
        assert (await port.ask("/config", None, other))[0] == 403
        assert len(port.changes) == 1


async def test_a_certificate_of_others_gets_no_handshake(
    settings: CoordinatorConfig, tmp_path: Path
) -> None:
    stranger = client(keystore(tmp_path / "s.pem", STRANGERS, name="ops"))
    async with served(settings) as port:
        with pytest.raises((ssl.SSLError, ConnectionError, IndexError)):
            await port.ask("/config", None, stranger)
        await until(lambda: len(port.server._unasked) == 0)


async def test_old_protocols_are_not_spoken(settings: CoordinatorConfig) -> None:
    old, new = client(), client()
    for context in (old, new):
        context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings(action="ignore"):
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    async with served(settings) as port:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await port.ask("/healthz", client=old)
        assert (await port.ask("/healthz", client=new))[0] == 200


async def test_plain_http_and_silence_get_nothing_from_tls(
    settings: CoordinatorConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(settings) as port:
        with pytest.raises((ConnectionError, IndexError)):
            await port.ask("/healthz")
        silent = [await asyncio.open_connection(*port.address) for _ in range(UNASKED_MAX + 10)]
        await until(lambda: len(port.server._unasked) == UNASKED_MAX)
        assert (await port.ask("/healthz", client=client()))[0] == 200
        for _, writer in silent:
            writer.close()
        await until(lambda: len(port.server._unasked) == 0)
        monkeypatch.setattr(tls_module, "HANDSHAKE_TIMEOUT_S", 0.05)
        reader, writer = await asyncio.open_connection(*port.address)
        assert await reader.read() == b""
        writer.close()


async def test_a_new_certificate_is_served_and_a_bad_one_is_not(
    settings: CoordinatorConfig, tmp_path: Path
) -> None:
    async def serial(port: Port) -> object:
        _, writer = await asyncio.open_connection(
            *port.address, ssl=client(), server_hostname="localhost"
        )
        found = writer.get_extra_info("ssl_object").getpeercert()["serialNumber"]
        writer.close()
        return found

    async with served(settings) as port:
        first = await serial(port)
        assert await serial(port) == first
        keystore(tmp_path / "server.pem")
        second = await serial(port)
        assert second != first
        with capture_logs() as logs:
            (tmp_path / "server.pem").write_text("no PEM")
            assert await serial(port) == second
            keystore(tmp_path / "server.pem", name="another")
            assert await serial(port) == second
        assert [line["log_level"] for line in logs] == ["error", "error"]
        assert "no certificate in PEM" in logs[0]["reason"]
        assert "the subject was CN=groupd,OU=Ops,O=Acme" in logs[1]["reason"]
