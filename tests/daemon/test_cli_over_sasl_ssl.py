"""Commands that read and write groups over Kafka's protocol, at a broker that wants TLS and a
login: `--command-config` (SASL_SSL with PLAIN)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from confluent_kafka import Consumer, TopicPartition

from groupd.coordinator.cli.main import main
from tests.support.certificates import keystore, truststore
from tests.support.daemon import Daemon
from tests.support.peer import running

HOST, GROUP, PASSWORD = "127.0.0.1", "billing", "admin-secret"
CA, STRANGERS = trustme.CA(), trustme.CA()
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("secured")
    keystore(made / "broker.pem", CA.issue_cert(HOST))
    truststore(made / "ca.pem", CA)
    truststore(made / "strangers.pem", STRANGERS)
    return made


@pytest.fixture(scope="module")
def bootstrap(directory: Path) -> Iterator[str]:
    """The address of a broker where the group has committed offset 7."""
    settings = {
        "listeners": f"SASL_SSL://{HOST}:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "ssl.keystore.location": str(directory / "broker.pem"),
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{MODULE} user_admin="{PASSWORD}";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
    }
    daemon = Daemon(directory, topics={"orders": 1}, settings=settings)
    with running(daemon):
        address = daemon.bootstrap
        consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": GROUP,
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "admin",
                "sasl.password": PASSWORD,
                "ssl.ca.location": str(directory / "ca.pem"),
            }
        )
        consumer.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)
        consumer.close()
        yield address


@pytest.fixture
def call(
    bootstrap: str, directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Call:
    """(exit code, stdout, stderr) of a command."""

    def run(*words: str, password: str = PASSWORD, trusted: str = "ca.pem") -> Any:
        config = tmp_path / "client.properties"
        config.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
            f"ssl.truststore.location={directory / trusted}\nssl.truststore.type=PEM\n"
            f'sasl.jaas.config={MODULE} username="admin" password="{password}";\n'
        )
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([*words, "--bootstrap", bootstrap, "--command-config", str(config)])
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return run


def test_offsets_and_history(call: Call) -> None:
    code, out, err = call("groups", "offsets", GROUP, "--format", "json")
    assert code == 0, err
    (offset,) = map(json.loads, out.splitlines())
    assert (offset["topic"], offset["partition"], offset["offset"]) == ("orders", 0, 7)
    code, out, err = call("groups", "history", GROUP, "--format", "json")
    assert code == 0, err
    assert [json.loads(line)["topic"] for line in out.splitlines()] == ["orders"]


def test_restore(call: Call) -> None:
    code, _, err = call("groups", "restore", GROUP, "--at", "now", "--format", "json")
    assert code == 0, err
    assert "nothing to do" in err


def test_a_copy_of_the_log(call: Call, tmp_path: Path) -> None:
    code, out, err = call("log", "consume", "--to", str(tmp_path / "copy"))
    assert code == 0, err
    assert out.startswith("copied "), out
    assert any((tmp_path / "copy").glob("__consumer_offsets-*/*.log"))


def test_who_is_not_let_in(call: Call) -> None:
    for words in (("groups", "offsets", GROUP), ("groups", "restore", GROUP, "--at", "now")):
        code, out, err = call(*words, password="wrong")
        assert (code, out) == (1, "")
        assert "refused the login" in err
        assert "wrong" not in err
    code, out, err = call("groups", "offsets", GROUP, trusted="strangers.pem")
    assert (code, out) == (1, "")
    assert "certificate" in err.lower()


def test_the_flag_is_for_clusters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "client.properties"
    config.touch()
    with pytest.raises(SystemExit) as ended:
        main(["groups", "offsets", GROUP, "--command-config", str(config)])
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
