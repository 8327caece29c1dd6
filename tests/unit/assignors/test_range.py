"""What `range` gives: topics in ascending order, and the prior object where nothing changes."""

from __future__ import annotations

from groupd.coordinator.core.assignors.api import Assignment, MemberSpec, SubscriptionType
from groupd.coordinator.core.assignors.simple import RangeAssignor
from groupd.coordinator.core.assignors.spec import AssignmentSpec, ImageDescriber
from groupd.coordinator.core.metadata_image import MetadataImage, TopicImage
from groupd.protocol.messages import TopicId

ALPHA, BETA, SMALL = (bytes([number]) * 16 for number in (2, 1, 0))
ALIKE, ALL = frozenset([ALPHA, BETA]), frozenset([ALPHA, BETA, SMALL])


def assigned(
    subscriptions: dict[str, frozenset[TopicId]], priors: dict[str, Assignment] | None = None
) -> dict[str, Assignment]:
    sizes = {ALPHA: 4, BETA: 4, SMALL: 1}
    image = MetadataImage(TopicImage(key, key.hex(), size) for key, size in sizes.items())
    members = {
        key: MemberSpec(topics, (priors or {}).get(key, {}))
        for key, topics in subscriptions.items()
    }
    kind = SubscriptionType.HETEROGENEOUS
    return dict(RangeAssignor().assign(AssignmentSpec(members, kind), ImageDescriber(image)))


def test_topics_come_in_ascending_order() -> None:
    result = assigned({"a": ALL, "b": ALL})
    assert list(result["a"].items()) == [(SMALL, (0,)), (BETA, (0, 1)), (ALPHA, (0, 1))]
    assert result["b"] == {BETA: (2, 3), ALPHA: (2, 3)}


def test_an_unchanged_member_gets_its_prior_object_back() -> None:
    for subscription in (ALIKE, ALL):
        members = {"a": subscription, "b": subscription}
        first = assigned(members)
        again = assigned(members, first)
        assert all(again[key] is first[key] for key in members)


def test_a_prior_of_other_topics_is_not_taken_for_the_same() -> None:
    prior = assigned({"a": frozenset([ALPHA])})
    assert prior["a"] == {ALPHA: (0, 1, 2, 3)}
    assert assigned({"a": ALIKE}, prior)["a"] == {BETA: (0, 1, 2, 3), ALPHA: (0, 1, 2, 3)}
