"""`uniform` of one subscription against docs/spec/assignors.md#4, word for word: groups in
which most members keep all they have, with nothing free, some or all."""

from __future__ import annotations

from collections.abc import Mapping
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from groupd.coordinator.core.assignors import uniform
from groupd.coordinator.core.assignors.api import Assignment, MemberSpec, SubscriptionType
from groupd.coordinator.core.assignors.spec import AssignmentSpec, ImageDescriber
from groupd.coordinator.core.assignors.uniform import UniformAssignor
from groupd.coordinator.core.metadata_image import MetadataImage, TopicImage
from tests.support.examples import examples

Members = dict[str, MemberSpec]
Item = tuple[bytes, int]
HOMOGENEOUS = SubscriptionType.HOMOGENEOUS


def image_of(counts: list[int]) -> MetadataImage:
    return MetadataImage(
        TopicImage(bytes([*bytes(15), index + 1]), f"t{index}", count)
        for index, count in enumerate(counts)
    )


@st.composite
def groups(draw: st.DrawFn) -> tuple[Members, MetadataImage]:
    """A balanced group to which something happened: members joined, left or have too much, topics
    grew, shrank, came and went. Partitions of a prior may be in any order, as Kafka writes them."""
    counts = draw(st.lists(st.integers(0, 12), min_size=1, max_size=4))
    names = [f"m{index}" for index in range(draw(st.integers(1, 9)))]
    image = image_of(counts)
    common = frozenset(image.by_id)
    fresh = {name: MemberSpec(common, {}) for name in names}
    targets: dict[str, Assignment] = {}
    if draw(st.booleans()):
        targets.update(plain(fresh, image))
    gone = draw(st.sets(st.sampled_from(names), max_size=len(names) - 1))
    heir = draw(st.sampled_from(sorted({*names} - gone)))
    if gone and targets and draw(st.booleans()):
        both = items_of(targets[heir]) + [item for name in gone for item in items_of(targets[name])]
        targets[heir] = assignment_of(both)
    if draw(st.booleans()):
        counts = [max(0, count + draw(st.integers(-1, 2))) for count in counts]
        image = image_of(counts)
    elif draw(st.booleans()):
        targets = {
            name: {topic: tuple(draw(st.permutations(numbers))) for topic, numbers in its.items()}
            for name, its in targets.items()
        }
    joined = [f"n{index}" for index in range(draw(st.integers(0, 4)))]
    if draw(st.booleans()):
        common = draw(st.frozensets(st.sampled_from(sorted(image.by_id))))
    members = {
        name: MemberSpec(common, targets.get(name, {})) for name in sorted({*names, *joined} - gone)
    }
    return members, image


def items_of(assignment: Assignment) -> list[Item]:
    return [(topic, number) for topic, numbers in assignment.items() for number in numbers]


def assignment_of(items: list[Item]) -> Assignment:
    result: dict[bytes, tuple[int, ...]] = {}
    for topic, number in sorted(items):
        result[topic] = (*result.get(topic, ()), number)
    return result


def plain(members: Members, image: MetadataImage) -> dict[str, Assignment]:
    topics = sorted(next(iter(members.values())).topic_ids)
    counts = {topic: image.by_id[topic].partitions for topic in topics}
    quota, extras = divmod(sum(counts.values()), len(members))
    prior_items = {item for spec in members.values() for item in items_of(spec.assigned)}
    free = [(t, n) for t in topics for n in range(counts[t]) if (t, n) not in prior_items]
    ids = sorted(members)
    result: dict[str, Assignment] = {}
    wanted: dict[str, int] = {}
    for index, name in enumerate(ids):
        prior = members[name].assigned
        cap, kept, revoked = quota + (extras > 0), [], []
        for topic in sorted(prior):
            for number in sorted(prior[topic]):
                if number < counts.get(topic, 0):
                    (kept if len(kept) < cap else revoked).append((topic, number))
        free += revoked
        missing = cap - len(kept)
        extra = cap > quota
        if missing and extra and len(ids) - index > extras:
            missing, extra = missing - 1, False
        extras -= extra
        if missing:
            wanted[name] = missing
        unchanged = sorted(kept) == sorted(items_of(prior))
        result[name] = prior if unchanged else assignment_of(kept)
    for name, missing in wanted.items():
        result[name] = assignment_of(items_of(result[name]) + free[:missing])
        del free[:missing]
    assert not free
    return result if topics else {}


def settled(assignments: Mapping[str, Assignment]) -> dict[str, Assignment]:
    return {name: assignment_of(items_of(its)) for name, its in assignments.items()}


@examples(600)
@given(group=groups(), size=st.sampled_from([1, 2, 99]))
def test_equals_the_plain_form(group: tuple[Members, MetadataImage], size: int) -> None:
    members, image = group
    with (
        patch.object(uniform, "SLICE_MEMBERS", size),
        patch.object(uniform, "SLICE_PARTITIONS", size),
    ):
        result = UniformAssignor().assign(
            AssignmentSpec(members, HOMOGENEOUS), ImageDescriber(image)
        )
    expected = plain(members, image)
    assert settled(result) == settled(expected)
    for name, its in result.items():
        assert its is members[name].assigned or list(its) == sorted(its)
        if members[name].assigned == expected[name]:
            assert its is members[name].assigned


def test_a_slice_has_a_limit_in_partitions() -> None:
    image = image_of([32])
    names = [f"m{number}" for number in range(8)]
    members = {name: MemberSpec(frozenset(image.by_id), {}) for name in names}
    spec = AssignmentSpec(members, HOMOGENEOUS)
    with patch.object(uniform, "SLICE_PARTITIONS", 8):
        steps = uniform.homogeneous_steps(spec, ImageDescriber(image))
        assert sum(1 for _ in steps) >= 2 * len(names)  # what is kept and what is handed out
