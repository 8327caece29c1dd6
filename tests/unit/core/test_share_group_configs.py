"""Settings of share groups: durations, values that are no numbers, and what is shown."""

from __future__ import annotations

import pytest

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.config.keys import DELETE, SET
from groupd.coordinator.config.values import BOOLEAN, SOURCE_DEFAULT, SOURCE_GROUP
from groupd.coordinator.core.group_types import group_configs
from groupd.coordinator.core.share_group import configs
from groupd.coordinator.core.share_group.configs import duration_ms
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.topics import AlterConfig

CONFIG = CoordinatorConfig()


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT0S", 0),
        ("PT1H", 3_600_000),
        ("P2D", 172_800_000),
        ("P1DT2H3M4.567S", 93_784_567),
        ("pt1.5s", 1500),
        ("PT1,25S", 1250),
        ("PT0.0009S", 0),
        ("PT1H-30M", 1_800_000),
        ("-PT-1S", 1000),
        ("+PT1S", 1000),
    ],
)
def test_durations_are_read_as_java_reads_them(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "P",
        "PT",
        "P1DT",
        "1H",
        "PT1",
        "P1M",
        "P1Y",
        "PT1X",
        "PT1.S5",
        "PT-1S",
        "-PT1S",
        "PT1H ",
        "PT1.1234567890S",
        f"P{'9' * 5000}D",
    ],
)
def test_what_is_no_duration_or_negative_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no duration|is negative"):
        duration_ms(text)


def altered(name: str, value: str) -> dict[str, str]:
    return group_configs().alter(CONFIG, {}, [AlterConfig(name, SET, value)])


@pytest.mark.parametrize("value", ["earliest", "latest", "by_duration:PT1H"])
def test_sg_38_a_reset_that_is_right(value: str) -> None:
    overrides = altered("share.auto.offset.reset", value)
    assert configs.AUTO_OFFSET_RESET.text(CONFIG, overrides) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("share.auto.offset.reset", "none"),
        ("share.auto.offset.reset", "by_duration"),
        ("share.auto.offset.reset", "by_duration:"),
        ("share.auto.offset.reset", "by_duration:-PT1S"),
        ("share.auto.offset.reset", "Latest"),
        ("share.isolation.level", "READ_COMMITTED"),
        ("share.renew.acknowledge.enable", "yes"),
        ("errors.deadletterqueue.topic.name", "__dead"),
        ("errors.deadletterqueue.copy.record.enable", "1"),
        ("share.session.timeout.ms", "x"),
    ],
)
def test_sg_38_a_value_that_is_wrong(name: str, value: str) -> None:
    with pytest.raises(ApiError) as refused:
        altered(name, value)
    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_sg_38_the_session_must_be_longer_than_the_heartbeat_interval() -> None:
    short = CoordinatorConfig(share_min_session_timeout_ms=1)
    with pytest.raises(ApiError, match="greater than"):
        group_configs().alter(short, {}, [AlterConfig("share.session.timeout.ms", SET, "5000")])


def test_sg_39_all_are_shown_with_their_defaults() -> None:
    overrides = altered("share.isolation.level", "read_committed")
    shown = {one.name: one for one in group_configs().describe(CONFIG, overrides)}
    own = {name: one for name, one in shown.items() if not name.startswith("consumer.")}
    assert {name: one.value for name, one in own.items()} == {
        "share.session.timeout.ms": "45000",
        "share.heartbeat.interval.ms": "5000",
        "share.assignment.interval.ms": "1000",
        "share.record.lock.duration.ms": "30000",
        "share.delivery.count.limit": "5",
        "share.partition.max.record.locks": "2000",
        "share.auto.offset.reset": "latest",
        "share.isolation.level": "read_committed",
        "share.renew.acknowledge.enable": "true",
        "errors.deadletterqueue.topic.name": "",
        "errors.deadletterqueue.copy.record.enable": "false",
    }
    sources = {name for name, one in own.items() if one.source == SOURCE_GROUP}
    assert sources == {"share.isolation.level"}
    assert own["share.session.timeout.ms"].source == SOURCE_DEFAULT
    assert own["share.renew.acknowledge.enable"].config_type == BOOLEAN


def test_stored_values_are_clamped_when_the_bounds_have_changed() -> None:
    overrides = altered("share.record.lock.duration.ms", "60000")
    tight = CoordinatorConfig(share_max_record_lock_duration_ms=40_000)
    assert configs.RECORD_LOCK_DURATION.number(tight, overrides) == 40_000


def test_flags() -> None:
    flag = configs.RENEW_ACKNOWLEDGE
    assert flag.flag(CONFIG, None)
    off = altered(flag.name, "False")
    assert not flag.flag(CONFIG, off)
    back = group_configs().alter(CONFIG, off, [AlterConfig(flag.name, DELETE, None)])
    assert flag.flag(CONFIG, back)
