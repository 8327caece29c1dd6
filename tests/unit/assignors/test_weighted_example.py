"""The documented example of a custom assignor, without a daemon."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupd.coordinator.core.assignors.api import (
    Assignment,
    AssignorError,
    MemberSpec,
    SubscriptionType,
)
from groupd.coordinator.core.assignors.spec import AssignmentSpec, ImageDescriber
from groupd.coordinator.core.consumer_group.target_assignment import check_steps
from groupd.coordinator.core.metadata_image import MetadataImage, TopicImage
from groupd.coordinator.core.slices import run_through

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "docs" / "examples" / "assignor" / "src" / "weighted_assignor.py"
FOO, GONE = bytes([1]) * 16, bytes([9]) * 16


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("weighted_assignor", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


example = load()


def assign(
    instances: Mapping[str, str | None], count: int, prior: Mapping[str, Assignment] | None = None
) -> Mapping[str, Assignment]:
    """Members by id with their instance ids, all on a topic of `count` partitions and one that
    is gone; the result has passed the same check as in the coordinator."""
    members = {
        one: MemberSpec(frozenset({FOO, GONE}), (prior or {}).get(one, {}), instance)
        for one, instance in instances.items()
    }
    spec = AssignmentSpec(members, SubscriptionType.HOMOGENEOUS)
    topics = ImageDescriber(MetadataImage([TopicImage(FOO, "foo", count)]))
    result: Mapping[str, Assignment] = example.WeightedAssignor().assign(spec, topics)
    run_through(check_steps(result, spec, topics))
    return result


def sizes(result: Mapping[str, Assignment]) -> dict[str, int]:
    return {one: len(its.get(FOO, ())) for one, its in result.items()}


@pytest.mark.parametrize(
    ("instances", "count", "expected"),
    [
        ({"a": "x.w3", "b": None}, 8, {"a": 6, "b": 2}),
        ({"a": None, "b": "plain"}, 5, {"a": 3, "b": 2}),
        ({"a": "x.w2", "b": "y.w2", "c": "z.w1"}, 6, {"a": 3, "b": 2, "c": 1}),
        ({"a": "x.w100", "b": None}, 1, {"a": 1, "b": 0}),
        ({"a": None}, 0, {"a": 0}),
    ],
)
def test_shares_follow_the_weights(
    instances: dict[str, str | None], count: int, expected: dict[str, int]
) -> None:
    assert sizes(assign(instances, count)) == expected


def test_members_keep_what_their_share_allows() -> None:
    before = assign({"a": None, "b": None}, 8)
    after = assign({"a": None, "b": None, "c": "c.w2"}, 8, before)
    assert sizes(after) == {"a": 2, "b": 2, "c": 4}
    for one in ("a", "b"):
        assert set(after[one][FOO]) < set(before[one][FOO])


@pytest.mark.parametrize("instance", ["x.w0", "x.w101"])
def test_a_weight_that_makes_no_sense_is_refused(instance: str) -> None:
    with pytest.raises(AssignorError, match="weight lies between"):
        assign({"a": instance}, 4)


@given(
    weights=st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 5), min_size=1),
    count=st.integers(0, 40),
)
def test_everything_is_given_out_and_an_unchanged_group_keeps_it(
    weights: dict[str, int], count: int
) -> None:
    instances = {one: f"{one}.w{weight}" for one, weight in weights.items()}
    first = assign(instances, count)
    assert sum(sizes(first).values()) == count
    assert assign(instances, count, first) == first
