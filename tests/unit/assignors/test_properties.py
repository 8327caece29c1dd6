"""Invariants of the built-in assignors (docs/spec/assignors.md#10) over generated groups."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from groupd.coordinator.core.assignors.api import Assignment, MemberSpec, SubscriptionType
from groupd.coordinator.core.assignors.loader import BUILT_IN
from groupd.coordinator.core.assignors.simple import ranked_members
from groupd.coordinator.core.assignors.spec import AssignmentSpec, ImageDescriber
from groupd.coordinator.core.assignors.uniform import UniformAssignor
from groupd.coordinator.core.assignors.uniform_heterogeneous import signed_key
from groupd.coordinator.core.metadata_image import MetadataImage, TopicImage
from tests.support.assignment_checks import check_result
from tests.support.examples import examples

HOMOGENEOUS, HETEROGENEOUS = SubscriptionType.HOMOGENEOUS, SubscriptionType.HETEROGENEOUS
Case = tuple[dict[str, MemberSpec], MetadataImage, SubscriptionType]
quick = examples(120)


@st.composite
def cases(draw: st.DrawFn, kind: SubscriptionType | None = None) -> Case:
    """Groups with topic ids of which some have the highest bit set, and disjoint priors, some of
    them stale or out of range."""
    counts = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4))
    ids = [bytes([draw(st.integers(0, 255)), *bytes(14), index]) for index in range(len(counts))]
    image = MetadataImage(
        TopicImage(topic_id, f"t{index}", counts[index]) for index, topic_id in enumerate(ids)
    )
    keys = [f"m{index}" for index in range(draw(st.integers(1, 6)))]
    kind = kind or draw(st.sampled_from(SubscriptionType))
    common = draw(st.frozensets(st.sampled_from(ids)))
    priors: dict[str, dict[bytes, list[int]]] = {key: {} for key in keys}
    for index, topic_id in enumerate(ids):
        for partition in range(counts[index] + 1):
            if owner := draw(st.sampled_from([None, *keys])):
                priors[owner].setdefault(topic_id, []).append(partition)
    members = {
        key: MemberSpec(
            topic_ids=common if kind is HOMOGENEOUS else draw(st.frozensets(st.sampled_from(ids))),
            assigned={topic: tuple(numbers) for topic, numbers in sorted(priors[key].items())},
            instance_id=draw(st.sampled_from([None, f"i{key}"])),
        )
        for key in keys
    }
    return members, image, kind


def assign(name: str, case: Case) -> dict[str, Assignment]:
    members, image, kind = case
    return dict(BUILT_IN[name]().assign(AssignmentSpec(members, kind), ImageDescriber(image)))


def with_prior(case: Case, prior: Mapping[str, Assignment]) -> Case:
    members, image, kind = case
    fed = {key: replace(spec, assigned=prior.get(key, {})) for key, spec in members.items()}
    return fed, image, kind


def load(assignment: Assignment) -> int:
    return sum(map(len, assignment.values()))


def partitions_of(assignment: Assignment) -> set[tuple[bytes, int]]:
    return {(topic, number) for topic, numbers in assignment.items() for number in numbers}


def valid_prior(case: Case, key: str) -> set[tuple[bytes, int]]:
    members, image, _ = case
    return {
        (topic, number)
        for topic, number in partitions_of(members[key].assigned)
        if topic in members[key].topic_ids and number < image.by_id[topic].partitions
    }


@pytest.mark.parametrize("name", sorted(BUILT_IN))
@quick
@given(case=cases())
def test_every_partition_once_to_a_subscriber(name: str, case: Case) -> None:
    members, image, kind = case
    before = {key: replace(spec, assigned=dict(spec.assigned)) for key, spec in members.items()}
    result = assign(name, case)
    check_result(result, AssignmentSpec(members, kind), ImageDescriber(image))
    wanted = {
        (topic, number)
        for spec in members.values()
        for topic in spec.topic_ids
        for number in range(image.by_id[topic].partitions)
    }
    assert {item for entry in result.values() for item in partitions_of(entry)} == wanted
    assert members == before
    assert assign(name, case) == result
    for entry in result.values():
        assert list(entry) == sorted(entry)
    racked = {key: replace(spec, rack_id=f"r{key}") for key, spec in members.items()}
    assert assign(name, (racked, image, kind)) == result


@quick
@given(case=cases())
def test_range_runs(case: Case) -> None:
    members, image, _ = case
    result = assign("range", case)
    assert set(result) == set(members)
    for topic_id, topic in image.by_id.items():
        owners = [key for key in ranked_members(members) if topic_id in members[key].topic_ids]
        runs = [result[key].get(topic_id, ()) for key in owners]
        sizes = [len(run) for run in runs]
        assert sizes == sorted(sizes, reverse=True)
        if owners:
            assert max(sizes) - min(sizes) <= 1
            assert [number for run in runs for number in run] == list(range(topic.partitions))
    assert assign("range", with_prior(case, {})) == result


@quick
@given(case=cases(HOMOGENEOUS))
def test_uniform_homogeneous_moves_the_least(case: Case) -> None:
    members, image, kind = case
    result = assign("uniform", case)
    if not result:
        return
    loads = [load(entry) for entry in result.values()]
    assert max(loads) - min(loads) <= 1
    quota, extras = divmod(sum(loads), len(members))
    owned = {key: valid_prior(case, key) for key in members}
    stayed = sum(len(owned[key] & partitions_of(result[key])) for key in members)
    over = sum(len(mine) > quota for mine in owned.values())
    assert stayed == sum(min(len(mine), quota) for mine in owned.values()) + min(extras, over)
    fed, _, _ = with_prior(case, result)
    backwards = AssignmentSpec(dict(reversed(fed.items())), kind, keep_order=True)
    again = UniformAssignor().assign(backwards, ImageDescriber(image))
    assert again == result
    assert all(again[key] is fed[key].assigned for key in fed)


@examples(300)
@given(case=cases(HOMOGENEOUS), data=st.data())
def test_uniform_knowing_who_speaks_soonest_is_as_good_as_without(
    case: Case, data: st.DataObject
) -> None:
    """Only the owners of the extras that nobody kept may change: loads and moves are the same."""
    members, image, kind = case
    due = {key: data.draw(st.integers(0, 3), label=key) for key in members}
    spec = AssignmentSpec(members, kind, next_heartbeat=due.__getitem__)
    result = dict(UniformAssignor().assign(spec, ImageDescriber(image)))
    plain = assign("uniform", case)
    assert result.keys() == plain.keys()
    check_result(result, spec, ImageDescriber(image))
    assert sorted(map(load, result.values())) == sorted(map(load, plain.values()))
    owned = {key: valid_prior(case, key) for key in result}

    def stayed(its: Mapping[str, Assignment]) -> dict[str, int]:
        return {key: len(mine & partitions_of(its[key])) for key, mine in owned.items()}

    assert stayed(result) == stayed(plain)
    quota = sum(map(load, result.values())) // len(members)
    free = sorted((key for key in result if len(owned[key]) <= quota), reverse=True)
    extras = sum(load(plain[key]) > quota for key in free)
    soonest = sorted(free, key=due.__getitem__)[:extras]
    assert {key for key in free if load(result[key]) > quota} == set(soonest)
    level = AssignmentSpec(members, kind, next_heartbeat=lambda _: 7)
    assert UniformAssignor().assign(level, ImageDescriber(image)) == plain


@quick
@given(case=cases(HOMOGENEOUS))
def test_who_joins_a_balanced_group_leaves_no_choice(case: Case) -> None:
    """Nothing is free then, so who speaks soonest changes nothing."""
    settled, image, kind = with_prior(case, assign("uniform", case))
    newcomer = replace(settled["m0"], assigned={}, instance_id=None)
    for joiner in ("a", "n"):
        joined = {**settled, joiner: newcomer}
        due = {key: number for number, key in enumerate(sorted(joined))}
        told = AssignmentSpec(joined, kind, next_heartbeat=due.__getitem__)
        plain = assign("uniform", (joined, image, kind))
        assert UniformAssignor().assign(told, ImageDescriber(image)) == plain


@quick
@given(case=cases())
def test_other_results_do_not_depend_on_who_speaks_soonest(case: Case) -> None:
    members, image, kind = case
    due = {key: number for number, key in enumerate(sorted(members, reverse=True))}
    topics = ImageDescriber(image)
    told = AssignmentSpec(members, kind, next_heartbeat=due.__getitem__)
    for name in sorted(BUILT_IN):
        if name != "uniform" or kind is HETEROGENEOUS:
            assert BUILT_IN[name]().assign(told, topics) == assign(name, case)


@quick
@given(case=cases(HETEROGENEOUS))
def test_uniform_heterogeneous_is_balanced_per_topic(case: Case) -> None:
    members, image, _ = case
    result = assign("uniform", case)
    loads = {key: load(entry) for key, entry in result.items()}
    for topic_id in image.by_id:
        subscribers = [key for key in members if topic_id in members[key].topic_ids]
        owners = [key for key in subscribers if topic_id in result[key]]
        for owner in owners:
            assert all(loads[owner] - loads[key] <= 1 for key in subscribers)
    again = assign("uniform", with_prior(case, result))
    assert again == result
    assert all(again[key] is result[key] for key in result)


@examples(300)
@given(case=cases(HETEROGENEOUS))
def test_uniform_heterogeneous_equals_the_plain_scan(case: Case) -> None:
    assert assign("uniform", case) == plain_uniform(case)


@examples(300)
@given(case=cases(HETEROGENEOUS), data=st.data())
def test_uniform_heterogeneous_equals_the_plain_scan_when_few_change(
    case: Case, data: st.DataObject
) -> None:
    """The group has settled before, so most members keep all they have."""
    members, image, kind = with_prior(case, assign("uniform", case))
    joiner = MemberSpec(data.draw(st.frozensets(st.sampled_from(sorted(image.by_id)))), {})
    members = {**members, data.draw(st.sampled_from(["a", "m00", "n"])): joiner}
    for key in data.draw(st.sets(st.sampled_from(sorted(members)), max_size=len(members) - 1)):
        del members[key]
    after = members, image, kind
    result = assign("uniform", after)
    assert result == plain_uniform(after)
    for key, entry in result.items():
        assert entry is members[key].assigned or entry != members[key].assigned


def test_uniform_heterogeneous_mends_what_two_members_hold() -> None:
    topic = bytes([*bytes(15), 1])
    image = MetadataImage([TopicImage(topic, "t", 4)])
    members = {
        "a": MemberSpec(frozenset([topic]), {topic: (0, 1, 2)}),
        "b": MemberSpec(frozenset([topic]), {topic: (2, 3)}),
    }
    result = assign("uniform", (members, image, HETEROGENEOUS))
    check_result(result, AssignmentSpec(members, HETEROGENEOUS), ImageDescriber(image))
    assert result == {"a": {topic: (0, 1)}, "b": {topic: (2, 3)}}


def plain_uniform(case: Case) -> dict[str, Assignment]:
    """Section 5 word for word, with scans instead of level sweeps."""
    members, image, _ = case
    keys = sorted(members)
    subscribers: dict[bytes, list[int]] = {}
    for index, key in enumerate(keys):
        for topic in members[key].topic_ids:
            subscribers.setdefault(topic, []).append(index)
    counts = {topic: image.by_id[topic].partitions for topic in subscribers}
    order = sorted(
        subscribers,
        key=lambda t: (-counts[t] / len(subscribers[t]), len(subscribers[t]), signed_key(t)),
    )
    owner = {item: index for index, key in enumerate(keys) for item in valid_prior(case, key)}
    loads = [list(owner.values()).count(index) for index in range(len(keys))]
    for topic in order:
        ranked = sorted(subscribers[topic], key=lambda i: (loads[i], i))
        for number in range(counts[topic]):
            if (topic, number) not in owner:
                best = min(ranked, key=lambda i: (loads[i], ranked.index(i)))
                owner[topic, number] = best
                loads[best] += 1
    last = -1
    shared = [topic for topic in order if len(subscribers[topic]) > 1]
    for _ in range(16):
        for position, topic in enumerate(shared):
            if position == last:
                break
            if plain_balance(topic, sorted(subscribers[topic]), loads, owner) or last < 0:
                last = position
        else:
            continue
        break
    built: dict[str, Assignment] = {}
    for index, key in enumerate(keys if subscribers else []):
        mine = sorted(item for item, holder in owner.items() if holder == index)
        built[key] = {
            topic: tuple(n for t, n in mine if t == topic)
            for topic in dict.fromkeys(t for t, _ in mine)
        }
    return built


def plain_balance(
    topic: bytes, members: list[int], loads: list[int], owner: dict[tuple[bytes, int], int]
) -> bool:
    ranked = sorted(members, key=lambda i: (loads[i], i))
    if loads[ranked[-1]] - loads[ranked[0]] <= 1:
        return False
    held: dict[int, list[int]] = {i: [] for i in ranked}
    for (t, number), holder in sorted(owner.items()):
        if t == topic:
            held[holder].append(number)
    active, moved = len(ranked), False
    while active:
        at = max(range(active), key=lambda p: (loads[ranked[p]], p))
        donor = ranked[at]
        if not held[donor]:
            active -= 1
            ranked[at], ranked[active] = ranked[active], ranked[at]
            continue
        receiver = min(ranked, key=lambda i: (loads[i], ranked.index(i)))
        if loads[donor] - loads[receiver] <= 1:
            break
        owner[topic, held[donor].pop()] = receiver
        loads[donor] -= 1
        loads[receiver] += 1
        moved = True
    return moved


@quick
@given(case=cases(HOMOGENEOUS))
def test_sticky_homogeneous_keeps_up_to_the_quota(case: Case) -> None:
    members, _, _ = case
    result = assign("sticky", case)
    loads = [load(entry) for entry in result.values()]
    assert max(loads) - min(loads) <= 1
    quota = sum(loads) // len(members)
    for key in members:
        mine = valid_prior(case, key)
        if len(mine) <= quota:
            assert mine <= partitions_of(result[key])
    assert assign("sticky", with_prior(case, result)) == result


@quick
@given(case=cases(HETEROGENEOUS))
def test_sticky_heterogeneous_leaves_no_better_receiver(case: Case) -> None:
    members, _, _ = case
    result = assign("sticky", case)
    loads = {key: load(entry) for key, entry in result.items()}
    for donor, entry in result.items():
        for topic_id in entry:
            for key in members:
                if topic_id in members[key].topic_ids:
                    assert loads[donor] - loads[key] < 2
    assert assign("sticky", with_prior(case, result)) == result


@quick
@given(case=cases(HOMOGENEOUS))
def test_roundrobin_homogeneous_is_balanced(case: Case) -> None:
    loads = [load(entry) for entry in assign("roundrobin", case).values()]
    assert max(loads) - min(loads) <= 1


@pytest.mark.parametrize("name", ["range", "uniform", "sticky"])
@quick
@given(case=cases(), data=st.data())
def test_static_replacement_moves_nothing(name: str, case: Case, data: st.DataObject) -> None:
    members, image, kind = case
    members = {key: replace(spec, instance_id=f"i{key}") for key, spec in members.items()}
    fed, _, _ = with_prior((members, image, kind), assign(name, (members, image, kind)))
    old = data.draw(st.sampled_from(sorted(fed)))
    new = data.draw(st.sampled_from(["a-new", "zz-new"]))
    replaced = {new if key == old else key: spec for key, spec in fed.items()}
    result = assign(name, (replaced, image, kind))
    for key, spec in replaced.items():
        assert result.get(key, {}) == spec.assigned
