"""`groupd acls` against a broker where clients log in: `--command-config`, with PLAIN and SCRAM."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from groupd.coordinator.cli.main import main
from tests.support.daemon import Daemon
from tests.support.peer import running
from tests.support.ports import free_ports

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
PASSWORDS = {"admin": "admin-secret", "alice": "alice-secret"}

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    address = f"127.0.0.1:{free_ports('127.0.0.1', 1)}"
    users = " ".join(f'user_{user}="{word}"' for user, word in PASSWORDS.items())
    settings = {
        "listeners": f"SASL_PLAINTEXT://{address}",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{PLAIN} {users};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
    }
    with running(Daemon(tmp_path_factory.mktemp("daemon"), settings=settings)):
        yield address


@pytest.fixture
def call(bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Calls a command as a user: (exit code, stdout, stderr)."""

    def run(user: str, *words: str, mechanism: str = "PLAIN", password: str = "") -> Any:
        module = PLAIN if mechanism == "PLAIN" else SCRAM
        password = password or PASSWORDS[user]
        config = tmp_path / "client.properties"
        config.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
            f'sasl.jaas.config={module} username="{user}" password="{password}";\n'
        )
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([*words, "--bootstrap-server", bootstrap, "--command-config", str(config)])
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return run


def listed(said: tuple[int, str, str]) -> list[tuple[str, str, str]]:
    """(principal, operation, name) of the ACLs that were printed."""
    assert said[0] == 0, said
    rows = [json.loads(line) for line in said[1].splitlines()]
    return [(row["principal"], row["operation"], row["name"]) for row in rows]


LIST = ("acls", "list", "--format", "json")
REMOVE = ("acls", "remove", "--cluster", "--format", "json")


def test_rights_of_those_who_have_logged_in(call: Call) -> None:
    """SE-49: without ACLs only super users may do anything, and nothing takes that from them."""
    code, out, err = call("alice", *LIST)
    assert (code, out) == (1, "")
    assert "CLUSTER_AUTHORIZATION_FAILED" in err
    add = ["acls", "add", "--cluster"]
    assert call("admin", *add, "--deny-principal", "User:admin")[0] == 0
    may = ["--allow-principal", "User:alice", "--operation", "Describe"]
    assert call("admin", *add, *may)[0] == 0
    expected = [
        ("User:admin", "ALL", "kafka-cluster"),
        ("User:alice", "DESCRIBE", "kafka-cluster"),
    ]
    assert listed(call("admin", *LIST)) == expected
    assert listed(call("alice", *LIST)) == expected
    code, out, err = call("alice", *REMOVE)
    assert (code, out) == (1, "")
    assert "CLUSTER_AUTHORIZATION_FAILED" in err
    assert listed(call("admin", *REMOVE)) == expected


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram(call: Call, tmp_path: Path, mechanism: str) -> None:
    user = f"a=b,{mechanism}"
    password = tmp_path / "password"
    password.touch(0o600)
    password.write_text("scram-secret\n")
    add = ["users", "add", user, "--mechanism", mechanism, "--password-file", str(password)]
    assert call("admin", *add)[0] == 0, call("admin", *add)
    may = ["--allow-principal", f"User:{user}", "--operation", "Describe", "--cluster"]
    assert call("admin", "acls", "add", *may)[0] == 0
    said = call(user, *LIST, mechanism=mechanism, password="scram-secret")
    assert (f"User:{user}", "DESCRIBE", "kafka-cluster") in listed(said)
    code, _, err = call(user, *LIST, mechanism=mechanism, password="wrong")
    assert code == 1
    assert "refused the login" in err
    assert call("admin", *REMOVE)[0] == 0


def test_who_is_not_known(call: Call) -> None:
    for user, password in (("alice", "wrong"), ("eve", "secret")):
        code, out, err = call(user, *LIST, password=password)
        assert (code, out) == (1, "")
        assert "refused the login" in err
        assert password not in err


@pytest.mark.parametrize(
    ("protocol", "words"),
    [
        (None, "the connection was closed; does the broker want TLS or a login"),
        ("PLAINTEXT", "the connection was closed; does the broker want TLS or a login"),
        ("SSL", "does this port speak TLS?"),
    ],
)
def test_what_may_be_missing_is_told(
    bootstrap: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    protocol: str | None,
    words: str,
) -> None:
    """Brokers close without a word."""
    config = tmp_path / "client.properties"
    config.write_text(f"security.protocol={protocol}\n")
    more = [] if protocol is None else ["--command-config", str(config)]
    with pytest.raises(SystemExit) as ended:
        main([*LIST, "--bootstrap-server", bootstrap, *more])
    said = capsys.readouterr()
    assert ended.value.code == 1
    assert words in said.err
    assert said.err.count("\n") == 1
