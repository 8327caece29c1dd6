"""The validity of a settled heartbeat of a share group: who gets one, what renewing does, what ends
it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from groupd.coordinator.core.metadata_image import MetadataDelta, MetadataImage, TopicImage
from groupd.coordinator.core.share_group.group import SESSION
from groupd.coordinator.core.types import Outcome, ReplyValidity, RequestContext
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.share_group import ShareGroupHeartbeatRequest
from tests.unit.core.test_share_group import FOO, IMAGE, NOW, Shard, done

BAZ = b"z" * 16
SESSION_MS = 45_000
KEY = (SESSION, "g", "m")


def beaten(shard: Shard, epoch: int = 3, client_id: str = "client") -> Outcome:
    """The outcome of a heartbeat of m that tells nothing new."""
    request = ShareGroupHeartbeatRequest("g", "m", epoch, None, None)
    return shard.settle(shard.shard.handle(RequestContext(7, 1, client_id), request, NOW))


def settled() -> tuple[Shard, ReplyValidity]:
    """m alone with all of foo at epoch 3, and the validity of its last heartbeat."""
    shard = Shard()
    shard.beat(0, "foo")
    shard.answer()
    shard.beat(2)
    validity = beaten(shard).reply_validity
    assert validity is not None
    return shard, validity


def grow(shard: Shard) -> None:
    image = MetadataImage([TopicImage(FOO, "foo", 3), IMAGE.by_name["bar"]], version=2)
    shard.shard.on_metadata(MetadataDelta(image, changed=frozenset({"foo"})), NOW)


def delete(shard: Shard) -> None:
    image = MetadataImage([IMAGE.by_name["bar"]], version=2)
    shard.shard.on_metadata(MetadataDelta(image, deleted=(("foo", FOO),)), NOW)


def test_renewing_starts_the_session_anew_and_does_nothing_else() -> None:
    shard, validity = settled()
    before = shard.state.deadlines.items()
    assert validity.renew(NOW.monotonic_ms + 30_000)
    after = dict(shard.state.deadlines.items())
    assert after.pop(KEY) == NOW.monotonic_ms + 30_000 + SESSION_MS
    assert after == {key: at_ms for key, at_ms in before if key != KEY}


def test_a_heartbeat_with_something_to_do_gives_no_lease() -> None:
    shard = Shard()
    shard.beat(0, "foo")
    assert beaten(shard, 2).reply_validity is None, "foo is being initialized"
    shard.answer()
    assert beaten(shard, 2).reply_validity is None, "the member gets foo"
    assert beaten(shard, 3).reply_validity is not None


def test_a_heartbeat_that_waits_for_the_assignment_interval_gives_no_lease() -> None:
    shard, _ = settled()
    shard.state.group_configs["g"] = {"share.assignment.interval.ms": "1000"}
    shard.beat(0, "foo", member="n")
    outcome = beaten(shard)
    assert not outcome.records
    assert outcome.reply_validity is None


def test_a_heartbeat_after_a_failed_initialization_gives_no_lease() -> None:
    shard, _ = settled()
    grow(shard)
    beaten(shard)
    shard.answer(done(shard.calls[0].request, ErrorCode.NOT_COORDINATOR))
    assert beaten(shard, 4).reply_validity is None, "it asks the share coordinator again"


ENDINGS: dict[str, Callable[[Shard], object]] = {
    "another member joins": lambda s: s.beat(0, "foo", member="n"),
    "the subscription changes": lambda s: s.beat(3, "foo", "bar"),
    "the client id changes": lambda s: beaten(s, client_id="other"),
    "the member leaves": lambda s: s.beat(-1),
    "the topic grows": grow,
    "the topic is deleted": delete,
    "the group gets a config": lambda s: s.state.group_configs.update({"g": {"k": "v"}}),
    "the shard is loaded again": lambda s: s.state.groups.clear(),
}


@pytest.mark.parametrize("change", ENDINGS.values(), ids=ENDINGS.keys())
def test_what_ends_a_lease(change: Callable[[Shard], object]) -> None:
    shard, validity = settled()
    change(shard)
    before = shard.state.deadlines.items()
    assert not validity.renew(NOW.monotonic_ms)
    assert shard.state.deadlines.items() == before


def test_an_unrelated_topic_ends_nothing() -> None:
    shard, validity = settled()
    image = MetadataImage([*IMAGE.by_name.values(), TopicImage(BAZ, "baz", 1)], version=2)
    shard.shard.on_metadata(MetadataDelta(image, created=frozenset({"baz"})), NOW)
    assert validity.renew(NOW.monotonic_ms)
