"""Java's orders, the loader, the result check and the describer."""

from __future__ import annotations

import importlib.metadata
import sys
import types
from collections.abc import Mapping
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.core.assignors import loader
from groupd.coordinator.core.assignors.api import (
    Assignment,
    AssignorError,
    GroupSpec,
    MemberSpec,
    SubscriptionType,
    TopicDescriber,
)
from groupd.coordinator.core.assignors.loader import load_assignors
from groupd.coordinator.core.assignors.simple import sorted_utf16
from groupd.coordinator.core.assignors.spec import AssignmentSpec, ImageDescriber
from groupd.coordinator.core.assignors.uniform_heterogeneous import signed_key
from groupd.coordinator.core.metadata_image import MetadataImage, TopicImage
from tests.support.assignment_checks import check_result

T1, T2, T9 = bytes([*bytes(15), 1]), bytes([*bytes(15), 2]), bytes([*bytes(15), 9])
IMAGE = MetadataImage([TopicImage(T1, "orders", 3, racks=(("a", "b"),)), TopicImage(T2, "p", 1)])


def test_strings_sort_by_utf16_unit() -> None:
    assert sorted_utf16(["\ue000", "\U0001f642", "b", "a"]) == ["a", "b", "\U0001f642", "\ue000"]


def test_topic_ids_compare_signed_where_java_does() -> None:
    low, high = bytes([0x7F] + [0] * 15), bytes([0x80] + [0] * 15)
    assert sorted([low, high], key=signed_key) == [high, low]


def test_describer_reads_the_image() -> None:
    describer = ImageDescriber(IMAGE)
    assert (describer.num_partitions(T1), describer.num_partitions(T9)) == (3, -1)
    assert (describer.name(T1), describer.name(T9)) == ("orders", None)
    assert describer.racks(T1, 0) == {"a", "b"}
    assert describer.racks(T1, 2) == describer.racks(T9, 0) == frozenset()


def test_spec_is_ascending_and_inverts_the_priors() -> None:
    members = {
        "b": MemberSpec(frozenset({T1}), {T1: (0, 2)}),
        "a": MemberSpec(frozenset({T1}), {}),
    }
    spec = AssignmentSpec(members, SubscriptionType.HOMOGENEOUS)
    assert list(spec.members) == ["a", "b"]
    assert [spec.is_assigned(T1, number) for number in range(3)] == [True, False, True]
    assert not spec.is_assigned(T2, 0)


@pytest.mark.parametrize(
    ("result", "fault"),
    [
        ({"x": {}}, "'x' is not a member"),
        ({"a": {T2: (0,)}}, "'a' was given p, to which it does not subscribe"),
        ({"a": {T1: (3,)}}, "orders-3; orders has 3 partitions"),
        ({"a": {T1: (-1,)}}, "orders--1; orders has 3 partitions"),
        ({"a": {T9: (0,)}}, "has 0 partitions"),
        ({"a": {T1: (0,)}, "b": {T1: (0,)}}, "orders-0 was given to 'a' and to 'b'"),
        ({"a": {T1: (1, 1)}}, "not ascending"),
        ({"a": {T1: ()}}, "non-empty tuple"),
        ({"a": {T1: [0]}}, "non-empty tuple"),
    ],
)
def test_check_result_names_the_fault(result: Mapping[str, Assignment], fault: str) -> None:
    members = {key: MemberSpec(frozenset({T1, T9}), {}) for key in "ab"}
    spec = AssignmentSpec(members, SubscriptionType.HOMOGENEOUS)
    with pytest.raises(AssignorError, match=fault):
        check_result(result, spec, ImageDescriber(IMAGE))


class GreedyAssignor:
    name = "greedy"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Mapping[str, Assignment]:
        return {}


class Nameless:
    name = ""


class Broken:
    def __init__(self) -> None:
        raise RuntimeError("no\nluck")


@pytest.fixture(autouse=True)
def plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("my_plugin")
    vars(module).update(Greedy=GreedyAssignor, Nameless=Nameless, Broken=Broken, number=3)
    monkeypatch.setitem(sys.modules, "my_plugin", module)
    points = EntryPoints([EntryPoint("eager", "my_plugin:Greedy", loader.ENTRY_POINT_GROUP)])
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **where: points.select(**where))


def test_load_keeps_the_order_of_the_setting() -> None:
    assert list(load_assignors(["sticky", "uniform"])) == ["sticky", "uniform"]


@pytest.mark.parametrize("name", ["my_plugin:Greedy", "eager"])
def test_load_custom_by_class_or_entry_point(name: str) -> None:
    loaded = load_assignors(["range", name])
    assert list(loaded) == ["range", "greedy"]
    assert isinstance(loaded["greedy"], GreedyAssignor)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["rangr"], "unknown assignor 'rangr'; built in are uniform, range"),
        (["no_such_module:X"], "cannot load 'no_such_module:X': ModuleNotFoundError"),
        (["my_plugin:Absent"], "AttributeError"),
        (["my_plugin:number"], "TypeError: not a class"),
        (["my_plugin:Nameless"], "is no assignor"),
        (["my_plugin:Broken"], "RuntimeError: no luck"),
        (["eager", "my_plugin:Greedy"], "two assignors are called 'greedy'"),
    ],
)
def test_load_errors_are_one_line(names: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_assignors(names)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
