"""No secret comes out of a daemon (SE-95): with everything on, clients log in rightly and wrongly,
users are changed, and then everything that the daemon has written or shows is searched.

The user names must be found in the same places, so that no search is of something empty.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import trustme

from groupd.coordinator.security.scram_credentials import MECHANISMS, salted
from tests.support.certificates import chain_pem, key_pem
from tests.support.daemon import ROOT, Daemon, refused
from tests.support.peer import running
from tests.support.raw import RawConnection, frame
from tests.support.sasl_client import (
    PLAIN_ALICE,
    SaslConnection,
    sasl_settings,
    valid_token,
)
from tests.support.sasl_frames import authenticate
from tests.support.tokens import message
from tests.support.wire_client import WireClient

ALICE, BOB = "alice", "bob"
PLAIN_PASSWORD, WRONG_PASSWORD = "alice-pw", "wrong-hush-password"
SCRAM_PASSWORD, SALT = "bob-hush-password", b"salt-of-bob"
KEY_PASSWORD, ADMIN_TOKEN = "hush-key-password", "hush-admin-token-0123"
LISTENER_PASSWORD = "hush-listener-password"
SALTED = salted(MECHANISMS["SCRAM-SHA-256"], SCRAM_PASSWORD, SALT, 4096)
BROKER = 4
PAGES = ("/", "/config", "/groups", "/events", "/metrics", "/telemetry")


class Everything(Daemon):
    """A daemon that has all settings with secrets in a file, and logs what it can. If it records,
    it has no listener with SASL: those cannot be recorded."""

    def __init__(self, directory: Path, *, recording: Path | None = None) -> None:
        authority = trustme.CA()
        self.trust = ssl.create_default_context()
        authority.configure_trust(self.trust)
        admin, listener = (authority.issue_cert("127.0.0.1") for _ in range(2))
        self.admin_key = key_pem(admin, KEY_PASSWORD)
        self.listener_key = key_pem(listener, LISTENER_PASSWORD)
        self.open_keys = key_pem(admin), key_pem(listener)
        keystore = directory / "server.pem"
        keystore.write_text(self.admin_key + chain_pem(admin))
        tokens = directory / "tokens"
        tokens.write_text(f"read {ADMIN_TOKEN}\n")
        tokens.chmod(0o600)
        settings = {
            **(sasl_settings(directory) if recording is None else {}),
            "ssl.keystore.certificate.chain": inline(chain_pem(listener)),
            "ssl.keystore.key": inline(self.listener_key),
            "ssl.key.password": LISTENER_PASSWORD,
            "groupd.admin.authentication": "always",
            "groupd.admin.token.file": str(tokens),
            "groupd.admin.ssl.keystore.location": str(keystore),
            "groupd.admin.ssl.key.password": KEY_PASSWORD,
        }
        listeners = settings.pop("listeners", "PLAINTEXT://127.0.0.1:0")
        where = {"listeners": f"{listeners},SSL://127.0.0.1:0"}
        mapping = settings.pop("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT")
        settings["listener.security.protocol.map"] = f"{mapping},SSL:SSL"
        config = directory / "groupd.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        arguments = ["--config", str(config), "--log-level", "debug", "--log-format", "json"]
        arguments += ["--record", str(recording)] if recording else []
        super().__init__(directory, topics={"orders": 1}, settings=where, arguments=arguments)

    def page(self, path: str, token: str) -> str:
        headers = {"Authorization": f"Bearer {token}"}
        url = f"https://{self.host}:{self.admin_port}{path}"
        asked = urllib.request.Request(url, headers=headers)
        with urllib.request.urlopen(asked, timeout=10, context=self.trust) as reply:
            text = reply.read().decode()
        assert isinstance(text, str)
        return text


def inline(pem: str) -> str:
    """A PEM text as it stands in one line of a file of settings."""
    return pem.replace("\n", "\\n")


def use_tls(daemon: Everything) -> None:
    """One client is served; one takes the listener for one without TLS, and says its password."""
    with WireClient(daemon.host, daemon.ports["ssl"], tls=daemon.trust) as client:
        assert client.call("ApiVersions", 0)["error_code"] == 0
    with RawConnection(daemon.ports["ssl"]) as mistaken:
        mistaken.send(frame(authenticate(PLAIN_ALICE)))
        assert mistaken.is_closed_by_peer()


def change_users(daemon: Daemon) -> None:
    """Bob gets a password; one who is not there is deleted."""
    upsertion = {
        "name": BOB,
        "mechanism": 1,
        "iterations": 4096,
        "salt": SALT,
        "salted_password": SALTED,
    }
    deletion = {"name": "carol", "mechanism": 1}
    with WireClient(daemon.host, daemon.port) as client:
        reply = client.call(
            "AlterUserScramCredentials", 0, deletions=[deletion], upsertions=[upsertion]
        )
    assert {one["user"]: one["error_code"] for one in reply["results"]} == {BOB: 0, "carol": 91}


def log_in(daemon: Daemon, good: str, bad: str) -> None:
    """Logs in by every mechanism, rightly and wrongly. `good`, `bad`: bearer tokens."""
    port = daemon.ports["sasl_plaintext"]

    def attempts() -> Iterator[int]:
        for token in (PLAIN_ALICE, f"\0{ALICE}\0{WRONG_PASSWORD}".encode()):
            with SaslConnection(port) as client:
                yield client.plain(token).error
        for password in (SCRAM_PASSWORD, WRONG_PASSWORD):
            with SaslConnection(port) as client:
                yield client.scram("SCRAM-SHA-256", BOB, password).error
        with SaslConnection(port) as client:
            assert client.handshake("OAUTHBEARER").error == 0
            yield client.authenticate(message(good)).error
        with SaslConnection(port) as client:
            assert client.handshake("OAUTHBEARER").error == 0
            assert b"invalid_token" in client.authenticate(message(bad)).token
            yield client.authenticate(b"\x01").error

    assert list(attempts()) == [0, 58, 0, 58, 0, 58]


def log_in_where_nobody_can(daemon: Daemon) -> None:
    """A client that takes the listener for one with SASL."""
    with SaslConnection(daemon.port) as client:
        client.send(frame(authenticate(PLAIN_ALICE)))
        client.reply()


def shown_configs(daemon: Daemon) -> Any:
    with WireClient(daemon.host, daemon.port) as client:
        asked = {"resource_type": BROKER, "resource_name": "0", "configuration_keys": None}
        reply = client.call("DescribeConfigs", 4, resources=[asked], include_synonyms=True)
    assert reply["results"][0]["error_code"] == 0
    return reply


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Everything that the daemon has written or shown, by name, and the secrets by name."""
    daemon = Everything(tmp_path_factory.mktemp("secrets"))
    good = valid_token()
    bad = good[:-8] + "AAAAAAAA"
    with running(daemon):
        change_users(daemon)
        log_in(daemon, good, bad)
        log_in_where_nobody_can(daemon)
        use_tls(daemon)
        found = {
            "configs": repr(shown_configs(daemon)).encode(),
            "command": Path(f"/proc/{daemon.pid}/cmdline").read_bytes(),
        }
        found["pages"] = "".join(daemon.page(path, ADMIN_TOKEN) for path in PAGES).encode()
        with pytest.raises(urllib.error.HTTPError) as refused:
            daemon.page("/config", f"{ADMIN_TOKEN}-wrong")
        refused.value.close()
    found["log"] = (daemon.directory / "groupd.log").read_bytes()
    found["store"] = b"".join(
        path.read_bytes() for path in daemon.data_dir.rglob("*") if path.is_file()
    )
    secrets = {
        "password of PLAIN": PLAIN_PASSWORD.encode(),
        "wrong password": WRONG_PASSWORD.encode(),
        "password of SCRAM": SCRAM_PASSWORD.encode(),
        "salted password": SALTED,
        "token": good.encode(),
        "signature of a token": good.rpartition(".")[2].encode(),
        "refused token": bad.encode(),
        "password of the admin port's key": KEY_PASSWORD.encode(),
        "password of the listener's key": LISTENER_PASSWORD.encode(),
        "key of the admin port": line_of(daemon.admin_key),
        "key of the listener": line_of(daemon.listener_key),
        "opened key of the admin port": line_of(daemon.open_keys[0]),
        "opened key of the listener": line_of(daemon.open_keys[1]),
        "token of the admin port": ADMIN_TOKEN.encode(),
    }
    return found, secrets


def line_of(pem: str) -> bytes:
    """A line of the key that no other key has."""
    return pem.splitlines()[3].encode()


def forms(secret: bytes) -> Iterator[bytes]:
    yield secret
    yield secret.hex().encode()
    yield base64.b64encode(secret).rstrip(b"=")
    yield repr(secret)[2:-1].encode()


def shown(text: bytes, secrets: Mapping[str, bytes]) -> list[str]:
    """The names of the secrets that are in the text in any form."""
    return [name for name, value in secrets.items() if any(form in text for form in forms(value))]


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("configs", b"groupd.admin.ssl.key.password"),
        ("configs", b"ssl.keystore.key"),
        ("command", b"groupd.properties"),
        ("pages", b"plain.sasl.jaas.config"),
        ("log", BOB.encode()),
        ("store", BOB.encode()),
    ],
)
def test_nothing_that_comes_out_holds_a_secret(
    outputs: tuple[Mapping[str, bytes], Mapping[str, bytes]], name: str, there: bytes
) -> None:
    found, secrets = outputs
    assert there in found[name]
    assert shown(found[name], secrets) == []


def test_secrets_are_shown_as_not_set(outputs: tuple[Mapping[str, bytes], Any]) -> None:
    pages = outputs[0]["pages"].decode()
    page = json.loads(pages[pages.index('{\n  "options"') : pages.index("\n}\n") + 2])["config"]
    for key in (
        "groupd.admin.ssl.key.password",
        "ssl.key.password",
        "ssl.keystore.key",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config",
    ):
        assert page[key] == {"value": None, "default": False}


def test_a_recording_holds_no_secret_and_is_repeated_all_the_same(
    tmp_path: Path, outputs: tuple[Mapping[str, bytes], Mapping[str, bytes]]
) -> None:
    file = tmp_path / "recording"
    with running(Everything(tmp_path, recording=file)) as daemon:
        change_users(daemon)
        log_in_where_nobody_can(daemon)
        use_tls(daemon)
        mine = {
            "key": line_of(daemon.listener_key),
            "opened key": line_of(daemon.open_keys[1]),
        }
    written = file.read_bytes()
    carried = b"\n".join(base64.b64decode(text) for text in re.findall(rb'"\$":"([^"]*)"', written))
    assert BOB.encode() in written
    assert BOB.encode() in carried
    secrets = {**outputs[1], **mine}
    assert shown(written, secrets) == shown(carried, secrets) == []
    replayed = subprocess.run(
        [sys.executable, "-m", "groupd", "replay", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (replayed.returncode, replayed.stderr) == (0, ""), replayed.stdout


def test_a_start_that_is_refused_tells_no_secret(tmp_path: Path) -> None:
    """A key that its password does not open, and one that does not fit its certificate."""
    own, other = (trustme.CA().issue_cert("127.0.0.1") for _ in range(2))
    secrets = {"password": b"hush-wrong-password"}
    for number, key in enumerate((key_pem(own, LISTENER_PASSWORD), key_pem(other))):
        config = tmp_path / f"{number}.properties"
        config.write_text(
            f"ssl.keystore.certificate.chain={inline(chain_pem(own))}\n"
            f"ssl.keystore.key={inline(key)}\n"
            "ssl.key.password=hush-wrong-password\n"
        )
        listeners = ("--set", "listeners=SSL://127.0.0.1:0")
        line = refused(("--config", str(config), *listeners), tmp_path)
        assert "ssl.key" in line
        assert shown(line.encode(), {**secrets, "key": line_of(key)}) == []
