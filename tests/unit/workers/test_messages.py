"""Everything that goes over the channel comes out as it went in."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs
from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.exposition import generate_latest

from groupd.coordinator.admin.families import text_steps
from groupd.coordinator.config.coordinator_config import (
    FIELDS_BY_KEY,
    CoordinatorConfig,
    with_settings,
)
from groupd.coordinator.core.metadata_image import MetadataDelta, MetadataImage, TopicImage
from groupd.coordinator.core.slices import run_through
from groupd.coordinator.lag.ends import Bounds
from groupd.coordinator.producers.transactions import Marker, TransactionalWrite
from groupd.coordinator.workers.messages import (
    CALLS,
    AdminAnswer,
    AdminQuestion,
    Family,
    Forward,
    GroupNews,
    Health,
    LogPlace,
    LogRead,
    LogStart,
    MarkerOrder,
    Start,
    TopicNews,
    Verify,
    WorkerOperation,
    decode_answer,
    decode_failure,
    decode_question,
    encode,
    encode_failure,
)
from groupd.coordinator.workers.reports import MergedFamilies, family_steps
from groupd.protocol.errors import ErrorCode
from groupd.storage.log import Append, LogState, LogUnavailable, Replacement, StoredBatch

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
    back = decode_question(WorkerOperation.START, encode(start))
    assert same(back.image, start.image)
    assert structs.replace(back, image=start.image) == start


VARIABLE = [one for one in FIELDS_BY_KEY.values() if len(one.metadata["choices"] or "..") > 1]
"""The settings that have more than one value."""


@pytest.mark.parametrize("entry", VARIABLE, ids=lambda entry: entry.name)
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
    elif isinstance(default, str):
        other = default + "x"
    assert other != default
    try:
        config = replace(CoordinatorConfig(), **{name: other})
        start = Start(1, "h", 1, (), config, image(), {}, "text", "info", "c")
        assert getattr(decode_question(WorkerOperation.START, encode(start)).config, name) == other
    except ValueError as error:
        assert "must" in str(error), "only rules between settings may refuse it"  # noqa: PT017


def news(delta: MetadataDelta) -> TopicNews:
    arrived: TopicNews = decode_question(WorkerOperation.METADATA, encode(TopicNews.of(delta)))
    return arrived


def test_changes_of_topics_follow_each_other() -> None:
    before = image(TopicImage(A, "a", 3), TopicImage(B, "b", 1))
    after = image(
        TopicImage(A, "a", 5), TopicImage(C, "b", 2), TopicImage(C[:15] + b"x", "new", 1), version=2
    )
    delta = MetadataDelta(after, frozenset({"b", "new"}), frozenset({"a"}), (("b", B),))
    back = news(delta).after(before)
    assert same(back.image, after)
    assert (back.created, back.changed, back.deleted) == (
        delta.created,
        delta.changed,
        delta.deleted,
    )
    gone = MetadataDelta(
        image(TopicImage(A, "a", 5), version=3), deleted=(("b", C), ("new", C[:15] + b"x"))
    )
    again = news(gone).after(back.image)
    assert same(again.image, gone.image)


def test_what_does_not_change_is_not_sent() -> None:
    topics = [TopicImage(n.to_bytes(16, "big"), f"topic-{n}", 1) for n in range(1000)]
    delta = MetadataDelta(MetadataImage(topics, 2), frozenset({"topic-7"}))
    assert len(encode(TopicNews.of(delta))) < 300


ROWS = (StoredBatch(0, 4, -1, b""), StoredBatch(5, 5, 2**60, b"payload"))
QUESTIONS = {
    WorkerOperation.OPEN: ["a", "\u00e9"],
    WorkerOperation.APPEND: [Append("a", 3, 0, 4, 17, b"one"), Append("\u00e9", 1, 7, 7, -1, b"")],
    WorkerOperation.READ: LogRead("a", 7, 1 << 20, min_one=False),
    WorkerOperation.FIRST_AT_OR_AFTER: LogPlace("a", -2),
    WorkerOperation.WITH_MAX_TIMESTAMP: "a",
    WorkerOperation.TRUNCATE_BEFORE: LogStart("a", 2**62, 7),
    WorkerOperation.REPLACE: Replacement("a", 3, 0, 6, ROWS, 6),
    WorkerOperation.DELETE: ["a"],
    WorkerOperation.FORWARD: Forward("/::1", b"\0\1\2"),
    WorkerOperation.VERIFY: Verify(
        TransactionalWrite("tx", 7, 3, (("__consumer_offsets", 4), ("t", 0))), True
    ),
    WorkerOperation.ENDS: {"orders": [3, 4]},
    WorkerOperation.WRITTEN: ("orders", 3, 17),
    WorkerOperation.FIRST_AT: ("orders", 3, 1_800_000_000_000),
    WorkerOperation.GROUP_CONFIGS: GroupNews("g", {"consumer.session.timeout.ms": "1"}),
    WorkerOperation.BROKER_CONFIGS: {"message.max.bytes": "5"},
    WorkerOperation.MARKER: MarkerOrder(Marker(7, 3, True, 9, 2), (("__consumer_offsets", 4),)),
    WorkerOperation.PING: None,
    WorkerOperation.METRICS: None,
    WorkerOperation.ADMIN: AdminQuestion(("groups", "team/a b\u00e9"), {"q": "1"}),
    WorkerOperation.STOP: None,
}
ANSWERS = {
    WorkerOperation.OPEN: {"a": LogState("a", 3, 1, 9, 2), "b": LogState("b", 1, 0, 0)},
    WorkerOperation.APPEND: None,
    WorkerOperation.READ: list(ROWS),
    WorkerOperation.FIRST_AT_OR_AFTER: ROWS[1],
    WorkerOperation.WITH_MAX_TIMESTAMP: None,
    WorkerOperation.TRUNCATE_BEFORE: None,
    WorkerOperation.REPLACE: None,
    WorkerOperation.DELETE: None,
    WorkerOperation.FORWARD: b"",
    WorkerOperation.VERIFY: {("t", 0): ErrorCode.NONE, ("t", 1): ErrorCode.NOT_COORDINATOR},
    WorkerOperation.ENDS: {"orders": {3: Bounds(5, 17)}},
    WorkerOperation.WRITTEN: 1_800_000_000_000,
    WorkerOperation.FIRST_AT: 17,
    WorkerOperation.START: Health(3, ("a", "b")),
    WorkerOperation.METADATA: None,
    WorkerOperation.GROUP_CONFIGS: None,
    WorkerOperation.BROKER_CONFIGS: None,
    WorkerOperation.MARKER: {("__consumer_offsets", 4): ErrorCode.NOT_COORDINATOR},
    WorkerOperation.PING: Health(),
    WorkerOperation.METRICS: [Family("f", "What it is.", "gauge", (("f", {"a": "b"}, 1.5),))],
    WorkerOperation.ADMIN: AdminAnswer(404, "text/plain; charset=utf-8", b"no\ngroup\n"),
    WorkerOperation.STOP: None,
}


def test_every_operation_is_in_the_table_and_in_these_tests() -> None:
    assert CALLS.keys() == set(WorkerOperation) == ANSWERS.keys()
    assert QUESTIONS.keys() == set(WorkerOperation) - {
        WorkerOperation.START,
        WorkerOperation.METADATA,
    }


@pytest.mark.parametrize("operation", QUESTIONS, ids=lambda operation: operation.name)
def test_a_question(operation: WorkerOperation) -> None:
    asked = QUESTIONS[operation]
    assert decode_question(operation, encode(asked)) == asked


@pytest.mark.parametrize("operation", ANSWERS, ids=lambda operation: operation.name)
def test_an_answer(operation: WorkerOperation) -> None:
    answer = ANSWERS[operation]
    assert decode_answer(operation, encode(answer)) == answer


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_bytes_that_are_cut_short_are_no_batches(cut: int) -> None:
    whole = encode([Append("a", 3, 0, 4, 17, b"payload")])
    with pytest.raises(ValueError, match="truncated"):
        decode_question(WorkerOperation.APPEND, whole[:-cut])


def test_a_failure_whose_text_is_no_unicode_arrives() -> None:
    body, expected = encode_failure(LogUnavailable("a\udcff"))
    assert expected
    assert str(decode_failure(body)) == "a?"


def test_metrics_of_several_processes_make_one_page() -> None:
    pages = {}
    for node in (0, 2):
        registry = CollectorRegistry()
        Counter("requests", "Requests.", ["api"], registry=registry).labels("Fetch").inc(node + 1)
        Gauge("members", "Members.", registry=registry).set(node)
        families = decode_answer(
            WorkerOperation.METRICS, encode(run_through(family_steps(registry)))
        )
        pages[node] = families
    page = run_through(text_steps(MergedFamilies(pages))).decode()
    assert page.encode() == generate_latest(MergedFamilies(pages))
    assert page.count("# TYPE requests_total counter") == 1
    assert 'requests_total{api="Fetch",node="0"} 1.0' in page
    assert 'requests_total{api="Fetch",node="2"} 3.0' in page
    assert 'members{node="2"} 2.0' in page
