"""A started daemon whose admin port speaks TLS and asks for tokens: what gets in, and by which
commands. And the starts that are refused."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import trustme

from tests.support.daemon import Daemon
from tests.support.peer import running

READER, OPERATOR = "reader-0123456789", "operator-0123456789"
KEY_PASSWORD = "hush-key-password"


class Secured(Daemon):
    """A daemon with TLS and tokens at its admin port. Its files are in `directory`."""

    def __init__(self, directory: Path) -> None:
        authority = trustme.CA()
        self.ca_file = directory / "ca.pem"
        authority.cert_pem.write_to_path(self.ca_file)
        certificate = authority.issue_cert("127.0.0.1", "localhost")
        keystore = directory / "server.pem"
        certificate.private_key_and_cert_chain_pem.write_to_path(keystore)
        self.token_file = directory / "tokens"
        self.token_file.write_text(f"# the scraper\nread {READER}\nadmin {OPERATOR}\n")
        self.token_file.chmod(0o600)
        config = directory / "groupd.properties"
        settings = {
            "groupd.admin.authentication": "always",
            "groupd.admin.token.file": self.token_file,
            "groupd.admin.ssl.keystore.location": keystore,
            "groupd.admin.ssl.key.password": KEY_PASSWORD,
        }
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        super().__init__(directory, topics={"orders": 1}, arguments=["--config", str(config)])
        self.trust = ssl.create_default_context(cafile=self.ca_file)

    def get(self, path: str, token: str | None = None) -> tuple[int, str]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        url = f"https://{self.host}:{self.admin_port}{path}"
        asked = urllib.request.Request(url, headers=headers)
        try:
            with urllib.request.urlopen(asked, timeout=10, context=self.trust) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


def groupd(
    *arguments: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "groupd", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=env,
    )


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with running(Secured(tmp_path_factory.mktemp("secured"))) as made:
        yield made


def test_pages_need_a_token_and_probes_do_not(daemon: Secured) -> None:
    assert daemon.get("/healthz") == (200, "ok\n")
    assert daemon.get("/readyz")[0] == 200
    for path in ("/", "/config", "/groups", "/metrics", "/events", "/telemetry", "/nothing"):
        assert daemon.get(path)[0] == 401, path
        assert daemon.get(path, READER + "x")[0] == 401, path
    assert json.loads(daemon.get("/groups", READER)[1]) == []
    assert daemon.get("/metrics", READER)[0] == 200


def test_wrong_tokens_keep_no_right_one_out(tmp_path: Path) -> None:
    """On a daemon of its own: for a while it answers other tests' wrong tokens with 429, too."""
    with running(Secured(tmp_path)) as daemon:
        wrong = [daemon.get("/groups", f"{READER}{number}")[0] for number in range(30)]
        assert set(wrong) == {401, 429}
        assert wrong[-1] == 429
        assert daemon.get("/groups", READER)[0] == 200


def test_the_page_of_settings_shows_no_secret(daemon: Secured) -> None:
    page = daemon.get("/config", READER)[1]
    shown = json.loads(page)["config"]
    assert shown["groupd.admin.ssl.key.password"] == {"value": None, "default": False}
    assert shown["groupd.admin.token.file"]["value"] == str(daemon.token_file)
    assert KEY_PASSWORD not in page
    assert READER not in page


def test_commands_come_in_with_the_file_of_the_daemon(daemon: Secured) -> None:
    address = f"{daemon.host}:{daemon.admin_port}"
    here = ("--admin", address)
    tls = (*here, "--admin-ca-file", str(daemon.ca_file))
    both = (*tls, "--admin-token-file", str(daemon.token_file))
    assert groupd("groups", "list", *both, "--format", "json").returncode == 0
    assert groupd("groups", "events", *both).returncode == 0
    missing = groupd("groups", "describe", "g", *both)
    assert (missing.returncode, "401" in missing.stderr) == (1, False)
    without = groupd("groups", "list", *tls)
    assert without.returncode == 1
    assert without.stderr == (
        "groupd: needs credentials: a bearer token or a certificate; see --admin-token-file\n"
    )
    assert groupd("health", *tls).stdout == "ready\n"
    plain = groupd("health", *here)
    assert plain.returncode == 1
    assert len(plain.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("flag", "text", "reason"),
    [
        ("--admin-token-file", None, "No such file"),
        ("--admin-token-file", "# nothing\n", "has no token"),
        ("--admin-token-file", "read t\u00f6ken\n", "has no token"),
        ("--admin-ca-file", None, "No such file"),
        ("--admin-ca-file", "no PEM", "no PEM certificates"),
    ],
    ids=str,
)
def test_files_that_cannot_be_used(
    tmp_path: Path, flag: str, text: str | None, reason: str
) -> None:
    path = tmp_path / "file"
    if text is not None:
        path.write_text(text)
    ended = groupd("groups", "list", flag, str(path))
    assert ended.returncode == 2
    assert reason in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_se_96_on_other_addresses_a_start_needs_a_scheme(tmp_path: Path, host: str) -> None:
    data = tmp_path / "data"
    ended = groupd(
        "serve", "--listen", "127.0.0.1:0", "--admin", f"{host}:0", "--data-dir", str(data)
    )
    assert ended.returncode == 2
    assert "needs credentials" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert not data.exists()
