"""Who may do what on the admin port: tokens, roles, failures, and the rules of a start."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from groupd.coordinator.admin.access import (
    FAILURES_MAX,
    TOKENS_MAX,
    AdminAccess,
    Caller,
    Role,
    Tokens,
    admin_access,
)
from groupd.coordinator.admin.admin_limits import TOKENS_VARIABLE
from groupd.coordinator.admin.tls import admin_tls
from groupd.coordinator.config.admin_settings import AdminSettings
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.config.settings import ConfigError
from tests.support.seconds import Seconds

READER, OPERATOR, STRANGER = "reader-0123456789", "operator-0123456789", "stranger-0123456789"
FILE = f"# for the scraper\nread {READER}\n\nADMIN {OPERATOR}\n"
ANYWHERE, HERE = "10.0.0.7", "127.0.0.1"


def token_file(tmp_path: Path, text: str = FILE, mode: int = 0o600) -> Path:
    path = tmp_path / "tokens"
    path.write_text(text)
    path.chmod(mode)
    return path


def bearer(token: str, address: str = ANYWHERE) -> Caller:
    return Caller(address, f"Bearer {token}")


@pytest.fixture(autouse=True)
def no_tokens_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKENS_VARIABLE, raising=False)


async def status(access: AdminAccess, caller: Caller, needed: Role = Role.READ) -> int:
    refused = await access.refusal(caller, needed)
    return 200 if refused is None else refused.status


@pytest.fixture
def access(tmp_path: Path) -> AdminAccess:
    roles = {"CN=ops,O=Acme": Role.ADMIN, "CN=prometheus": Role.READ}
    return AdminAccess(None, Tokens(token_file(tmp_path)), roles)


@pytest.mark.parametrize(
    ("caller", "read", "change"),
    [
        (Caller(HERE), 401, 401),
        (bearer(READER), 200, 403),
        (bearer(OPERATOR), 200, 200),
        (bearer(STRANGER), 401, 401),
        (bearer(""), 401, 401),
        (bearer(READER[:-1]), 401, 401),
        (Caller(HERE, f"bearer   {READER} "), 200, 403),
        (Caller(HERE, READER), 401, 401),
        (Caller(HERE, f"Basic {READER}"), 401, 401),
        (Caller(HERE, subject="CN=prometheus"), 200, 403),
        (Caller(HERE, subject="CN=ops,O=Acme"), 200, 200),
        (Caller(HERE, subject="CN=ops"), 403, 403),
        (Caller(HERE, f"Bearer {OPERATOR}", "CN=prometheus"), 200, 200),
        (Caller(HERE, f"Bearer {STRANGER}", "CN=ops,O=Acme"), 401, 401),
    ],
    ids=str,
)
async def test_a_role_comes_from_a_token_or_a_certificate(
    access: AdminAccess, caller: Caller, read: int, change: int
) -> None:
    assert await status(access, caller) == read
    assert await status(access, caller, Role.ADMIN) == change


async def test_refusals_say_how_to_come_in(access: AdminAccess) -> None:
    def told(refused: Any) -> Any:
        return dict(refused.headers)["WWW-Authenticate"]

    assert told(await access.refusal(Caller(HERE), Role.READ)) == 'Bearer realm="groupd"'
    assert "invalid_token" in told(await access.refusal(bearer(STRANGER), Role.READ))
    assert "insufficient_scope" in told(await access.refusal(bearer(READER), Role.ADMIN))


async def test_without_credentials_one_may_do_what_anonymous_may(tmp_path: Path) -> None:
    reads = AdminAccess(Role.READ, Tokens(token_file(tmp_path)), {})
    assert await status(reads, Caller(HERE)) == 200
    assert await status(reads, Caller(HERE), Role.ADMIN) == 401
    assert await status(reads, bearer(STRANGER)) == 401
    assert await status(AdminAccess(Role.ADMIN, None, {}), Caller(HERE), Role.ADMIN) == 200


async def test_wrong_tokens_are_logged_without_them_and_are_too_many_while_right_ones_come_in(
    tmp_path: Path,
) -> None:
    clock = Seconds()
    access = AdminAccess(None, Tokens(token_file(tmp_path)), {}, elapsed=clock)
    with capture_logs() as logs:
        for _ in range(FAILURES_MAX):
            assert await status(access, bearer(STRANGER)) == 401
        for _ in range(FAILURES_MAX):
            assert await status(access, bearer(STRANGER)) == 429
            assert await status(access, bearer(OPERATOR)) == 200
    assert len(logs) == FAILURES_MAX
    assert {line["client"] for line in logs} == {ANYWHERE}
    assert STRANGER not in str(logs)
    assert await status(access, bearer(STRANGER, "10.0.0.8")) == 401
    assert await status(access, Caller(ANYWHERE)) == 401
    refused = await access.refusal(bearer(STRANGER), Role.READ)
    assert refused is not None
    clock.now += int(dict(refused.headers)["Retry-After"])
    assert await status(access, bearer(STRANGER)) == 401


def test_a_changed_file_is_read_again_and_a_bad_one_changes_nothing(tmp_path: Path) -> None:
    path = token_file(tmp_path)
    tokens = Tokens(path, f"admin {STRANGER}")
    assert tokens.role(READER) is Role.READ
    path.write_text(f"read new-{READER}\n")
    assert tokens.role(READER) is None
    assert tokens.role(f"new-{READER}") is Role.READ
    with capture_logs() as logs:
        path.write_text("read short\n")
        assert tokens.role(f"new-{READER}") is Role.READ
        path.unlink()
        assert tokens.role(f"new-{READER}") is Role.READ
    assert [line["log_level"] for line in logs] == ["warning", "warning"]
    assert "short" not in str(logs)
    assert tokens.role(STRANGER) is Role.ADMIN


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has no token"),
        ("write hush-0123456789abc\n", "line 1 is not"),
        ("\nhush-0123456789abc\n", "line 2 is not"),
        ("read hush hush-0123456789abc\n", "line 1 is not"),
        ("read hush-hush\n", "must have 16 to 1024"),
        ("read hush-0123456789ab\u00e9\n", "must have 16 to 1024"),
        (f"read {'hush' * 300}\n", "must have 16 to 1024"),
        ("read hush-0123456789abc\n" * (TOKENS_MAX + 1), "more than 100 tokens"),
        ("#" * 70000, "more than 65536 bytes"),
    ],
    ids=lambda text: text[:12],
)
def test_a_bad_file_is_one_line_that_tells_no_secret(
    tmp_path: Path, text: str, reason: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        Tokens(token_file(tmp_path, text))
    assert reason in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o660, 0o644])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    if os.geteuid() != 0:
        assert mode  # the owner is not root, so the group has no right either
    with pytest.raises(ConfigError, match="chmod 600"):
        Tokens(token_file(tmp_path, mode=mode))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing: No such file"):
        Tokens(tmp_path / "nothing")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
async def test_on_loopback_nobody_needs_credentials(host: str) -> None:
    access = admin_access(AdminSettings(), host)
    assert await status(access, Caller(HERE)) == 200
    assert await status(access, Caller(HERE), Role.ADMIN) == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "groupd.example", "127.1"])
async def test_elsewhere_a_start_needs_a_scheme(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigError) as refused:
        admin_access(AdminSettings(), host)
    assert str(refused.value).startswith(f"--admin {host}: other machines reach it")
    assert "groupd.admin.authentication=none" in str(refused.value)
    settings = AdminSettings(admin_token_file=str(token_file(tmp_path)))
    assert await status(admin_access(settings, host), Caller(HERE)) == 401
    assert await status(admin_access(settings, host), bearer(READER)) == 200


@pytest.mark.parametrize(
    ("host", "tokens", "change", "warnings"),
    [("0.0.0.0", False, 200, 1), ("0.0.0.0", True, 401, 0), (HERE, False, 200, 0)],
)
async def test_where_nobody_is_asked_everybody_has_the_role_admin_unless_somebody_has_credentials(
    tmp_path: Path, host: str, tokens: bool, change: int, warnings: int
) -> None:
    settings = AdminSettings(
        admin_authentication="none",
        admin_token_file=str(token_file(tmp_path)) if tokens else "",
    )
    with capture_logs() as logs:
        access = admin_access(settings, host)
    assert [line["log_level"] for line in logs] == ["warning"] * warnings
    assert await status(access, Caller(ANYWHERE)) == 200
    assert await status(access, Caller(ANYWHERE), Role.ADMIN) == change


async def test_always_also_means_loopback(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"groupd\.admin\.authentication=always: set"):
        admin_access(AdminSettings(admin_authentication="always"), HERE)
    file = str(token_file(tmp_path))
    settings = AdminSettings(admin_authentication="always", admin_token_file=file)
    assert await status(admin_access(settings, HERE), Caller(HERE)) == 401


async def test_where_there_are_tokens_changes_need_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = AdminSettings(admin_token_file=str(token_file(tmp_path)))
    monkeypatch.setenv(TOKENS_VARIABLE, f"read {STRANGER}; admin {STRANGER}-2")
    access = admin_access(settings, HERE)
    assert await status(access, Caller(HERE)) == 200
    assert await status(access, Caller(HERE), Role.ADMIN) == 401
    assert await status(access, bearer(OPERATOR), Role.ADMIN) == 200
    assert await status(access, bearer(f"{STRANGER}-2"), Role.ADMIN) == 200


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"admin_ssl_roles": "admin:CN=a"}, "only with TLS"),
        ({"admin_ssl_client_auth": "required"}, "only with TLS"),
        (
            {"admin_ssl_keystore_location": "k", "admin_ssl_client_auth": "requested"},
            "whose certificates count",
        ),
        ({"admin_ssl_keystore_location": "k", "admin_ssl_roles": "admin:CN=a"}, "only with"),
        ({"admin_ssl_keystore_location": "/nothing"}, "/nothing: No such file"),
    ],
    ids=str,
)
def test_settings_of_tls_that_do_not_fit_together(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        admin_tls(CoordinatorConfig(**settings))  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["CN=a", "write:CN=a", "read:", "read:CN=a;x"])
def test_roles_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ConfigError, match=r"must be read:SUBJECT or admin:SUBJECT"):
        admin_access(AdminSettings(admin_ssl_roles=text), HERE)
