"""Flags and config files: what is read, and the one line that says what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupd.coordinator.cli.parse import (
    UsageError,
    build_config,
    config_file,
    directory,
    host_port,
    key_value,
    properties_file,
    real_port,
    servers,
    topic,
    visible_secrets,
)
from groupd.coordinator.config.coordinator_config import (
    FIELDS_BY_KEY,
    WITHOUT_EFFECT,
    CoordinatorConfig,
    validate,
)
from groupd.coordinator.config.internal_limits import InternalLimits
from groupd.testing.client_security import as_properties


def test_addresses() -> None:
    assert host_port("127.0.0.1:9092", "--listen") == ("127.0.0.1", 9092)
    assert host_port("[::1]:0", "--listen") == ("::1", 0)


@pytest.mark.parametrize(
    "text", ["9092", "host:", ":9092", "host:x", "host:65536", "host:-1", "host:٩٠٩٢", "host:9²"]
)
def test_bad_addresses_name_the_flag(text: str) -> None:
    with pytest.raises(UsageError, match="--listen"):
        host_port(text, "--listen")


def test_port_0_is_no_address_to_connect_to() -> None:
    assert real_port("[::1]:9092", "--advertised") == ("::1", 9092)
    with pytest.raises(UsageError, match="--advertised host:0: nobody can connect to port 0"):
        real_port("host:0", "--advertised")


def test_several_servers() -> None:
    assert servers("a:1", "--bootstrap") == [("a", 1)]
    assert servers("a:1, [::1]:2,b:3", "--bootstrap") == [("a", 1), ("::1", 2), ("b", 3)]
    for text in ("", "a:1,", "a:1,b", "a:1,b:0"):
        with pytest.raises(UsageError, match="--bootstrap"):
            servers(text, "--bootstrap")


def test_topics() -> None:
    assert topic("orders:6") == ("orders", 6)


@pytest.mark.parametrize(
    "text", ["orders", "orders:0", ":3", "orders:x", "orders:-1", "orders:٣", "orders:²"]
)
def test_bad_topics(text: str) -> None:
    with pytest.raises(UsageError, match="NAME:PARTITIONS"):
        topic(text)


@pytest.mark.parametrize(
    "name",
    [
        "__consumer_offsets",
        "__consumer_offsets_compacted",
        "__transaction_state",
        "__share_group_state",
    ],
)
def test_internal_topics_are_not_made_by_hand(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} is internal"):
        topic(f"{name}:1")


def test_an_empty_directory_is_none() -> None:
    assert directory("./") == Path()
    with pytest.raises(UsageError, match="--data-dir: is empty"):
        directory("")


def test_settings_may_contain_equal_signs() -> None:
    assert key_value("a.b = c=d") == ("a.b", "c=d")


def test_properties_and_toml_mean_the_same(tmp_path: Path) -> None:
    properties = tmp_path / "groupd.properties"
    properties.write_text(
        "# comment\n\n! comment\ngroup.max.size: 7\ngroup.consumer.assignors = range,uniform\n"
    )
    toml = tmp_path / "groupd.toml"
    toml.write_text('[group]\nmax.size = 7\nconsumer.assignors = ["range", "uniform"]\n')
    assert config_file(properties) == config_file(toml)
    config = build_config(toml, [])
    assert config.group_max_size == 7
    assert config.consumer_assignors == ("range", "uniform")


def test_the_first_separator_of_a_property_counts(tmp_path: Path) -> None:
    path = tmp_path / "x.properties"
    path.write_text("group.consumer.assignors=uniform,module:Class\n")
    assert config_file(path) == {"group.consumer.assignors": "uniform,module:Class"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"a=RULE:^CN=(\\w+)$/$1/", {"a": r"RULE:^CN=(\w+)$/$1/"}),
        (r"a=\"x\\\"y\"", {"a": r'"x\"y"'}),
        (r"a=https\://idp\#1", {"a": "https://idp#1"}),
        (r"a\:b\=c : d", {"a:b=c": "d"}),
        (r"a=\u00e9\ud83d\ude00\t.", {"a": "é😀\t."}),
        ("a=1\\\n   2\\\n\nb=3", {"a": "12", "b": "3"}),
        ("a=c:\\\\\nb=3", {"a": "c:\\", "b": "3"}),
        ("a=1\\\n# 2", {"a": "1# 2"}),
        ("a=1\\", {"a": "1"}),
        ("a=x\u2028y", {"a": "x\u2028y"}),
    ],
)
def test_properties_are_read_as_java_reads_them(
    tmp_path: Path, text: str, found: dict[str, str]
) -> None:
    path = tmp_path / "x.properties"
    path.write_text(text, encoding="utf-8")
    assert config_file(path) == found


def test_what_the_harness_writes_is_read_again(tmp_path: Path) -> None:
    settings = {"sasl.jaas.config": 'x password="a\\\\b\\"c é ☃ 😀";', "ssl.pem": "BEGIN\r\nEND"}
    path = tmp_path / "client.properties"
    path.write_text(as_properties(settings))
    assert path.read_text().isascii()
    assert properties_file(path, "--config") == settings


def test_set_beats_the_file_and_order_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text('"group.max.size" = 7\n')
    sets = [
        "group.consumer.session.timeout.ms=3000",
        "group.consumer.heartbeat.interval.ms=500",
        "group.consumer.min.heartbeat.interval.ms=100",
        "group.consumer.min.session.timeout.ms=1000",
        "group.max.size=9",
    ]
    for order in (sets, sets[::-1]):
        config = build_config(path, order)
        assert config.group_max_size == 9
        assert config.consumer_session_timeout_ms == 3000


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("no.such.key=1", "unknown config key"),
        ("group.max.size=0", "at least 1"),
        ("group.max.size=many", "whole number"),
        ("auto.create.topics.enable=yes", "true or false"),
        ("group.consumer.migration.policy=sometimes", "one of"),
        ("group.consumer.session.timeout.ms=1000", "group.consumer.min.session.timeout.ms"),
        ("group.coordinator.rebalance.protocols=consumer", "classic"),
        ("group.coordinator.rebalance.protocols=classic,streams", "streams is not served"),
        ("group.coordinator.rebalance.protocols=classic,share", "share is not served"),
        ("groupd.cluster.renew.ms=600", "unknown config key"),
        ("consumer_target_linger_ms=0", "unknown config key"),
        ("ssl.keystore.type=JKS", "ssl.keystore.type=JKS: only PEM"),
        ("listener.name.a.ssl.truststore.type=PKCS12", "truststore.type=PKCS12: only PEM"),
        ("group.consumer.assignors=", "at least one"),
    ],
)
def test_bad_settings_are_one_line(setting: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        build_config(None, [setting])
    assert "\n" not in str(caught.value)


def test_keys_that_files_for_kafka_have_change_nothing() -> None:
    given = [
        "offsets.topic.replication.factor=3",
        "ssl.keystore.type=pem",
        "listener.name.ssl.ssl.truststore.type=PEM",
    ]
    assert build_config(None, given) == CoordinatorConfig()


def test_a_key_without_effect_is_no_setting() -> None:
    assert not WITHOUT_EFFECT.keys() & FIELDS_BY_KEY.keys()


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        config_file(tmp_path / "missing.toml")
    bad = tmp_path / "bad.toml"
    bad.write_text("= 1")
    with pytest.raises(UsageError, match="not valid TOML"):
        config_file(bad)
    odd = tmp_path / "odd.properties"
    odd.write_text("group.max.size\n")
    with pytest.raises(UsageError, match="line 1"):
        config_file(odd)


def test_the_defaults_are_valid_and_every_key_is_unique() -> None:
    validate(CoordinatorConfig())
    without_key = {*InternalLimits.__dataclass_fields__, "listener_overrides"}
    assert len(FIELDS_BY_KEY) == len(CoordinatorConfig.__dataclass_fields__.keys() - without_key)


JAAS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"


def test_values_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE", "7")
    assert build_config(None, ["node.id=${env:NODE}"]).node_id == 7
    with pytest.raises(UsageError, match=r"node\.id: the environment has no variable NOBODY"):
        build_config(None, ["node.id=${env:NOBODY}"])


def test_secrets_on_the_command_line_are_noticed() -> None:
    sets = [
        "node.id=7",
        "ssl.keystore.type=PEM",
        "groupd.admin.ssl.key.password=hush",
        "groupd.admin.ssl.key.password=${env:PASSWORD}",
        "ssl.keystore.type=PEM",
        "listener.name.ssl.ssl.truststore.type=PEM",
        f"{JAAS}=hush",
    ]
    assert visible_secrets(sets) == ["groupd.admin.ssl.key.password", JAAS]
