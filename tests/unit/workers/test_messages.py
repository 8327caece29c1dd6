"""Everything that goes over the channel comes out as it went in."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from msgspec import structs
from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.exposition import generate_latest

from groupd.coordinator.config import CoordinatorConfig, with_settings
from groupd.coordinator.core.metadata_image import MetadataDelta, MetadataImage, TopicImage
from groupd.coordinator.producers.transactions import Marker, TransactionalWrite
from groupd.coordinator.workers import log_bytes, messages
from groupd.coordinator.workers.messages import AdminAnswer, Health, Start
from groupd.coordinator.workers.metric_families import (
    MergedFamilies,
    decode_families,
    encode_families,
)
from groupd.protocol.errors import ErrorCode
from groupd.storage.log import Append, LogState, Replacement, StoredBatch

A, B, C = (bytes([n]) * 16 for n in (1, 2, 3))


def image(*topics: TopicImage, version: int = 1, created: int = 1) -> MetadataImage:
    return MetadataImage(topics, version, created)


def same(one: MetadataImage, other: MetadataImage) -> bool:
    return (
        dict(one.by_name) == dict(other.by_name)
        and dict(one.by_id) == dict(other.by_id)
        and (one.version, one.created_version) == (other.version, other.created_version)
    )


def test_a_start() -> None:
    config = with_settings(
        CoordinatorConfig(),
        {
            "group.consumer.assignors": "range,my.module:Assignor",
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "7",
            "group.consumer.migration.policy": "upgrade",
            "groupd.history.retention.ms": "-1",
        },
    )
    start = Start(
        3,
        "::1",
        9095,
        (2, 5),
        config,
        image(TopicImage(A, "a", 3), TopicImage(B, "b", 1, True, (("r1", "r2"),)), version=8),
        {"g\u00e9": {"consumer.session.timeout.ms": "50000"}},
        "json",
        "debug",
        "cluster",
    )
    back = Start.decode(start.encode())
    assert same(back.image, start.image)
    assert structs.replace(back, image=start.image) == start


@pytest.mark.parametrize("entry", fields(CoordinatorConfig), ids=lambda entry: entry.name)
def test_every_setting_arrives(entry: object) -> None:
    """Whatever its type: what is not the default is sent as text."""
    name, default = entry.name, entry.default  # type: ignore[attr-defined]
    other: object = default
    if isinstance(default, bool):
        other = not default
    elif default is None:
        other = 60_000
    elif isinstance(default, int):
        high = entry.metadata["high"]  # type: ignore[attr-defined]
        other = default - 1 if high == default else default + 1
    elif isinstance(default, tuple):
        other = (*default, "more")
    elif entry.metadata["choices"]:  # type: ignore[attr-defined]
        other = next(one for one in entry.metadata["choices"] if one != default)  # type: ignore[attr-defined]
    assert other != default
    try:
        config = replace(CoordinatorConfig(), **{name: other})
        start = Start(1, "h", 1, (), config, image(), {}, "text", "info", "c")
        assert getattr(Start.decode(start.encode()).config, name) == other
    except ValueError as error:
        assert "must" in str(error), "only rules between settings may refuse it"  # noqa: PT017


def test_changes_of_topics_follow_each_other() -> None:
    before = image(TopicImage(A, "a", 3), TopicImage(B, "b", 1))
    after = image(
        TopicImage(A, "a", 5), TopicImage(C, "b", 2), TopicImage(C[:15] + b"x", "new", 1), version=2
    )
    delta = MetadataDelta(after, frozenset({"b", "new"}), frozenset({"a"}), (("b", B),))
    back = messages.decode_metadata(messages.encode_metadata(delta), before)
    assert same(back.image, after)
    assert (back.created, back.changed, back.deleted) == (
        delta.created,
        delta.changed,
        delta.deleted,
    )
    gone = MetadataDelta(
        image(TopicImage(A, "a", 5), version=3), deleted=(("b", C), ("new", C[:15] + b"x"))
    )
    again = messages.decode_metadata(messages.encode_metadata(gone), back.image)
    assert same(again.image, gone.image)


def test_what_does_not_change_is_not_sent() -> None:
    topics = [TopicImage(n.to_bytes(16, "big"), f"topic-{n}", 1) for n in range(1000)]
    delta = MetadataDelta(MetadataImage(topics, 2), frozenset({"topic-7"}))
    assert len(messages.encode_metadata(delta)) < 300


def test_transactions() -> None:
    write = TransactionalWrite("tx", 7, 3, (("__consumer_offsets", 4), ("t", 0)))
    assert messages.decode_write(messages.encode_write(write, True)) == (write, True)
    marker = Marker(7, 3, True, 9, 2)
    places = [("__consumer_offsets", 4)]
    assert messages.decode_marker(messages.encode_marker(marker, places)) == (marker, places)
    codes = {("t", 0): ErrorCode.NONE, ("t", 1): ErrorCode.NOT_COORDINATOR}
    assert messages.decode_codes(messages.encode_codes(codes)) == codes


def test_the_rest() -> None:
    assert Health.decode(Health(3, ("a", "b")).encode()) == Health(3, ("a", "b"))
    answer = AdminAnswer(404, "text/plain; charset=utf-8", b"no\ngroup\n")
    assert AdminAnswer.decode(answer.encode()) == answer
    path = ("groups", "team/a b\u00e9")
    assert messages.decode_path(messages.encode_path(path, {"q": "1"})) == (path, {"q": "1"})
    configs = {"consumer.session.timeout.ms": "1"}
    body = messages.encode_group_configs("g", configs)
    assert messages.decode_group_configs(body) == ("g", configs)
    assert messages.decode_forward(messages.encode_forward("/::1", b"\0\1\2")) == (
        "/::1",
        b"\0\1\2",
    )


def test_broker_configs() -> None:
    values = {"message.max.bytes": "5", "group.consumer.assignor.offload.enable": "false"}
    body = messages.encode_broker_configs(values)
    assert messages.decode_broker_configs(body) == values


def test_logs() -> None:
    rows = [StoredBatch(0, 4, -1, b""), StoredBatch(5, 5, 2**60, b"payload")]
    assert log_bytes.decode_rows(log_bytes.encode_rows(rows)) == rows
    batches = [Append("a", 3, 0, 4, 17, b"one"), Append("\u00e9", 1, 7, 7, -1, b"")]
    assert log_bytes.decode_appends(log_bytes.encode_appends(batches)) == batches
    states = {"a": LogState("a", 3, 1, 9, 2), "b": LogState("b", 1, 0, 0)}
    assert log_bytes.decode_states(log_bytes.encode_states(states)) == states
    change = Replacement("a", 3, 0, 6, tuple(rows), 6)
    assert log_bytes.decode_replacement(log_bytes.encode_replacement(change)) == change
    read = log_bytes.encode_read("a", 7, 1 << 20, min_one=False)
    assert log_bytes.decode_read(read) == ("a", 7, 1 << 20, False)
    assert log_bytes.decode_place(log_bytes.encode_place("a", -2)) == ("a", -2)


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_bytes_that_are_cut_short_are_no_batches(cut: int) -> None:
    whole = log_bytes.encode_appends([Append("a", 3, 0, 4, 17, b"payload")])
    with pytest.raises(Exception, match=r"unpack|announced"):
        log_bytes.decode_appends(whole[:-cut])


def test_metrics_of_several_processes_make_one_page() -> None:
    pages = {}
    for node in (0, 2):
        registry = CollectorRegistry()
        Counter("requests", "Requests.", ["api"], registry=registry).labels("Fetch").inc(node + 1)
        Gauge("members", "Members.", registry=registry).set(node)
        pages[node] = decode_families(encode_families(registry))
    page = generate_latest(MergedFamilies(pages)).decode()
    assert page.count("# TYPE requests_total counter") == 1
    assert 'requests_total{api="Fetch",node="0"} 1.0' in page
    assert 'requests_total{api="Fetch",node="2"} 3.0' in page
    assert 'members{node="2"} 2.0' in page
