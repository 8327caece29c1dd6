"""Scenarios AS-01..AS-56 in the notation of docs/spec/assignors.md#9, written out: topics
`T1=3`; members `NAME SUBSCRIPTION[@instance] [: prior]` with `*` = all topics; result `NAME
assignment`."""

from __future__ import annotations

import re

import pytest

from groupd.coordinator.core.assignors.api import (
    Assignment,
    AssignorError,
    MemberSpec,
    SubscriptionType,
)
from groupd.coordinator.core.assignors.loader import BUILT_IN
from groupd.coordinator.core.assignors.spec import AssignmentSpec, ImageDescriber
from groupd.coordinator.core.metadata_image import MetadataImage, TopicImage
from tests.support.assignment_checks import check_result

HETERO = "heterogeneous"


def topic_id(name: str) -> bytes:
    return int(name[1:]).to_bytes(16, "big")


def parse_assignment(text: str) -> dict[bytes, tuple[int, ...]]:
    parsed: dict[bytes, tuple[int, ...]] = {}
    for topic, ranges in re.findall(r"(\w+)\[([\d,-]+)\]", text):
        numbers: list[int] = []
        for part in ranges.split(","):
            low, _, high = part.partition("-")
            numbers.extend(range(int(low), int(high or low) + 1))
        parsed[topic_id(topic)] = tuple(sorted(numbers))
    return dict(sorted(parsed.items()))


def parse_topics(text: str) -> MetadataImage:
    images = []
    for part in text.split():
        name, count = part.split("=")
        images.append(TopicImage(topic_id(name), name, int(count)))
    return MetadataImage(images)


def parse_members(text: str, image: MetadataImage) -> dict[str, MemberSpec]:
    members = {}
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        head, _, prior = part.partition(":")
        name, subscription = head.split()
        subscription, _, instance = subscription.partition("@")
        if subscription == "*":
            ids = frozenset(image.by_id)
        else:
            ids = frozenset(topic_id(topic) for topic in re.findall(r"\w+", subscription))
        members[name] = MemberSpec(ids, parse_assignment(prior), instance or None)
    return members


def spec_of(members: dict[str, MemberSpec], kind: str | None = None) -> AssignmentSpec:
    alike = len({member.topic_ids for member in members.values()}) <= 1
    default = SubscriptionType.HOMOGENEOUS if alike else SubscriptionType.HETEROGENEOUS
    return AssignmentSpec(members, SubscriptionType(kind) if kind else default)


def run(assignor: str, topics: str, members: str, kind: str | None = None) -> dict[str, Assignment]:
    image = parse_topics(topics)
    spec = spec_of(parse_members(members, image), kind)
    describer = ImageDescriber(image)
    result = BUILT_IN[assignor]().assign(spec, describer)
    check_result(result, spec, describer)
    return dict(result)


def expected_of(text: str) -> dict[str, Assignment]:
    expected = {}
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        name, _, rest = part.partition(" ")
        expected[name] = parse_assignment(rest)
    return expected


AB_TWO = "A *: T1[0,1] T2[0,1]; B *: T1[2] T2[2]"
UNI_37 = (
    "A T1: T1[0-2]; B T1,T2: T1[3] T2[0]; C T1,T2,T3: T1[4,5] T2[1-3] T3[0-3]",
    "A T1[0-2,5]; B T1[3] T2[0-3]; C T1[4] T3[0-3]",
)
R, U, RR, ST = "range", "uniform", "roundrobin", "sticky"
CASES = [
    ("AS-01", R, "T1=3 T3=2", "A *; B *", "A T1[0,1] T3[0]; B T1[2] T3[1]"),
    ("AS-02", R, "T1=3 T2=3", "A *; B *", "A T1[0,1] T2[0,1]; B T1[2] T2[2]"),
    ("AS-03", R, "T1=3 T3=2", "A *; B *; C *", "A T1[0] T3[0]; B T1[1] T3[1]; C T1[2]"),
    (
        "AS-04",
        R,
        "T1=3 T2=3 T3=2",
        "A T1,T2; B T3; C T2,T3",
        "A T1[0-2] T2[0,1]; B T3[0]; C T2[2] T3[1]",
    ),
    ("AS-05", R, "T1=5", "A *@z; B *; C *@a", "C T1[0,1]; A T1[2,3]; B T1[4]"),
    ("AS-06", R, "T1=3", "Z *@ia: T1[0,1]; B *@ib: T1[2]", "Z T1[0,1]; B T1[2]"),
    ("AS-07", R, "T1=3", "B *: T1[2]; Z *", "B T1[0,1]; Z T1[2]"),
    (
        "AS-08",
        R,
        "T1=2 T2=2",
        "A *: T1[0] T2[0]; B *: T1[1] T2[1]; C *",
        "A T1[0] T2[0]; B T1[1] T2[1]; C -",
    ),
    (
        "AS-09",
        R,
        "T1=3 T2=3",
        AB_TWO + "; C *",
        "A T1[0] T2[0]; B T1[1] T2[1]; C T1[2] T2[2]",
    ),
    ("AS-10", R, "T1=4 T2=4", AB_TWO, "A T1[0,1] T2[0,1]; B T1[2,3] T2[2,3]"),
    (
        "AS-11",
        R,
        "T1=4 T2=3",
        AB_TWO + "; C T1",
        "A T1[0,1] T2[0,1]; B T1[2] T2[2]; C T1[3]",
    ),
    ("AS-12", R, "T1=7", "A *; B *; C *", "A T1[0-2]; B T1[3,4]; C T1[5,6]"),
    (
        "AS-13",
        R,
        "T1=4 T2=6",
        "A *; B *; C *",
        "A T1[0,1] T2[0,1]; B T1[2] T2[2,3]; C T1[3] T2[4,5]",
    ),
    ("AS-14", R, "T1=3", "A T1; B -", "A T1[0-2]; B -"),
    ("AS-15", R, "T1=0 T2=2", "A *; B *", "A T2[0]; B T2[1]"),
    ("AS-16-no-subscription", R, "", "A -", "A -"),
    ("AS-16-no-members", R, "T1=3", "", ""),
    ("AS-18", U, "T1=3 T3=2", "A *; B *", "A T1[0,1]; B T1[2] T3[0,1]"),
    ("AS-19", U, "T3=2", "A *; B *; C *", "A -; B T3[0]; C T3[1]"),
    ("AS-20", U, "T1=3 T2=3", AB_TWO, "A T1[0,1] T2[0]; B T1[2] T2[1,2]"),
    (
        "AS-21",
        U,
        "T1=6 T2=5",
        "A *: T1[0,2] T2[0]; B *: T1[1] T2[1,2]",
        "A T1[0,2,3,4] T2[0]; B T1[1,5] T2[1-4]",
    ),
    (
        "AS-22",
        U,
        "T1=3 T2=3",
        "A *: T1[0,2] T2[0]; B *: T1[1] T2[1,2]; C *",
        "A T1[0,2]; B T1[1] T2[1]; C T2[0,2]",
    ),
    (
        "AS-23",
        U,
        "T1=3 T2=3",
        "A *: T1[0] T2[0]; B *: T1[1] T2[1]",
        "A T1[0,2] T2[0]; B T1[1] T2[1,2]",
    ),
    (
        "AS-24",
        U,
        "T1=2 T2=2",
        "A T2: T1[0] T2[0]; B T2: T1[1] T2[1]",
        "A T2[0]; B T2[1]",
    ),
    ("AS-25", U, "T1=5", "A *: T1[0,1]; B *: T1[2-4]", "A T1[0,1]; B T1[2-4]"),
    ("AS-26", U, "T1=5", "A *: T1[0-4]; B *", "A T1[0-2]; B T1[3,4]"),
    ("AS-27", U, "T1=7", "A *: T1[0-6]; B *; C *", "A T1[0-2]; B T1[3,4]; C T1[5,6]"),
    (
        "AS-28",
        U,
        "T1=10",
        "A *; B *; C *; D *",
        "A T1[0,1]; B T1[2,3]; C T1[4-6]; D T1[7-9]",
    ),
    ("AS-29", U, "T1=6", "A *: T1[0,1]; C *: T1[4,5]", "A T1[0-2]; C T1[3-5]"),
    (
        "AS-30",
        U,
        "T1=4 T2=2",
        "A *: T1[0,1]; B *: T1[2,3]",
        "A T1[0,1] T2[0]; B T1[2,3] T2[1]",
    ),
    (
        "AS-31",
        U,
        "T1=4",
        "A *: T1[0,1] T9[0,1]; B *: T1[2,3]",
        "A T1[0,1]; B T1[2,3]",
    ),
    (
        "AS-32",
        U,
        "T1=4",
        "A *: T1[0]; B *: T1[1]; C *: T1[2]; D *: T1[3]; E *",
        "A T1[0]; B T1[1]; C T1[2]; D T1[3]; E -",
    ),
    (
        "AS-33",
        U,
        "T1=8",
        "A *: T1[0-2]; B *: T1[3-5]; C *: T1[6,7]; D *",
        "A T1[0,1]; B T1[3,4]; C T1[6,7]; D T1[2,5]",
    ),
    ("AS-34", U, "", "A -; B -", ""),
    ("AS-35", U, "T1=3 T3=6", "A T1,T3; B T3", "A T1[0-2] T3[4]; B T3[0-3,5]"),
    ("AS-36", U, "T1=2 T3=1", "A T3; B T3; C T1", "A T3[0]; B -; C T1[0,1]"),
    ("AS-37", U, "T1=6 T2=4 T3=4", *UNI_37),
    (
        "AS-38",
        U,
        "T1=6 T2=5 T3=3 T4=3",
        "A T1,T3: T1[0-3] T3[0,1]; B *: T2[0-2] T4[0-2]",
        "A T1[0-5] T3[0-2]; B T2[0-4] T4[0-2]",
    ),
    (
        "AS-39",
        U,
        "T1=6 T2=7",
        "A T1: T1[0,2] T2[0]; B *: T1[1] T2[1,2]; C *",
        "A T1[0,2-5]; B T1[1] T2[1,2,6]; C T2[0,3-5]",
    ),
    (
        "AS-40",
        U,
        "T1=3 T2=8 T3=3",
        "A T1,T3: T1[0-2] T3[0,1]; B T2: T2[3-6]",
        "A T1[0-2] T3[0-2]; B T2[0-7]",
    ),
    (
        "AS-41",
        U,
        "T1=3 T2=5",
        "A T1: T1[0,2] T2[1,3]; B *: T1[1] T2[0,2,4]",
        "A T1[0-2]; B T2[0-4]",
    ),
    (
        "AS-42",
        U,
        "T1=2 T2=2 T3=2",
        "A *: T1[0,1] T2[0,1] T3[0,1]; B *",
        "A T2[0] T3[0,1]; B T1[0,1] T2[1]",
        HETERO,
    ),
    (
        "AS-43",
        U,
        "T1=4 T2=4",
        "A *; B T1; C T2",
        "A T1[0,2] T2[3]; B T1[1,3]; C T2[0-2]",
    ),
    (
        "AS-44",
        U,
        "T1=14 T2=16",
        "A T1: T1[0-8]; B *: T1[9-13] T2[0-4]; C T2: T2[5-15]",
        "A T1[0-8]; B T1[9-13] T2[0-4]; C T2[5-15]",
    ),
    ("AS-45", U, "T1=8", "A T1: T1[0-7]; B T1; C -", "A T1[0-3]; B T1[4-7]; C -"),
    ("AS-46", U, "T1=2", "A *: T1[0,1]; B *; C *", "A T1[0]; B T1[1]; C -", HETERO),
    ("AS-47", RR, "t0=3 t1=3", "A *; B *", "A t0[0,2] t1[1]; B t0[1] t1[0,2]"),
    (
        "AS-48",
        RR,
        "t0=1 t1=2 t2=3",
        "A t0; B t0,t1; C *",
        "A t0[0]; B t1[0]; C t1[1] t2[0-2]",
    ),
    ("AS-49", RR, "T1=3", "A *@z; B *; C *@a", "C T1[0]; A T1[1]; B T1[2]"),
    ("AS-50-hetero", RR, "T1=2 T2=3", "A *; B T2", "A T1[0,1] T2[1]; B T2[0,2]"),
    ("skips-forward", RR, "T1=2 T2=1", "A T1; B T2; C T1", "A T1[0]; B T2[0]; C T1[1]"),
    ("AS-50-few", RR, "T1=2", "A *; B *; C *", "A T1[0]; B T1[1]; C -"),
    (
        "AS-51",
        ST,
        "t0=2 t1=2 t2=2 t3=2",
        "A *; B *; C *",
        "A t0[0] t1[1] t3[0]; B t0[1] t2[0] t3[1]; C t1[0] t2[1]",
    ),
    (
        "AS-52",
        ST,
        "t0=2 t1=2 t2=2 t3=2",
        "A *: t0[0] t1[1] t3[0]; C *: t1[0] t2[1]",
        "A t0[0,1] t1[1] t3[0]; C t1[0] t2[0,1] t3[1]",
    ),
    (
        "AS-53-sticky",
        ST,
        "T1=4 T2=4",
        "A *: T1[0-3] T2[0-3]; B *",
        "A T1[0,1] T2[0,1]; B T1[2,3] T2[2,3]",
    ),
    ("AS-53-uniform", U, "T1=4 T2=4", "A *: T1[0-3] T2[0-3]; B *", "A T1[0-3]; B T2[0-3]"),
    (
        "AS-54",
        ST,
        "T1=7",
        "A *: T1[0-2]; B *: T1[3-6]; C *",
        "A T1[0-2]; B T1[3,4]; C T1[5,6]",
    ),
    (
        "AS-55-fresh",
        ST,
        "t0=1 t1=2 t2=3",
        "A t0; B t0,t1; C *",
        "A t0[0]; B t1[0,1]; C t2[0-2]",
    ),
    (
        "AS-55-leaves",
        ST,
        "t0=1 t1=2 t2=3",
        "B t0,t1: t1[0,1]; C *: t2[0-2]",
        "B t0[0] t1[0,1]; C t2[0-2]",
    ),
    (
        "AS-56",
        ST,
        "T1=6 T2=2",
        "A T1: T1[0-5]; B *",
        "A T1[2-5]; B T1[0,1] T2[0,1]",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_scenario(case: tuple[str, ...]) -> None:
    _, assignor, topics, members, expected, *kind = case
    assert run(assignor, topics, members, *kind) == expected_of(expected)


@pytest.mark.parametrize("assignor", ["range", "uniform", "sticky"])
@pytest.mark.parametrize("kind", ["homogeneous", "heterogeneous"])
def test_as_17_unknown_topic_is_an_error(assignor: str, kind: str) -> None:
    with pytest.raises(AssignorError, match=r"unknown topic 0+9$"):
        run(assignor, "T1=2", "A T1,T9", kind)


def test_as_17_roundrobin_skips_unknown_topics() -> None:
    """Section 6 says so for this product extension."""
    assert run("roundrobin", "T1=2", "A T1,T9") == expected_of("A T1[0,1]")


@pytest.mark.parametrize(
    ("assignor", "topics", "members", "kind"),
    [
        ("range", "T1=2 T2=2", "A *: T1[0] T2[0]; B *: T1[1] T2[1]; C *", None),
        ("uniform", "T1=5", "A *: T1[0,1]; B *: T1[2-4]", None),
        ("uniform", "T1=14 T2=16", "A T1: T1[0-8]; B *: T1[9-13] T2[0-4]; C T2: T2[5-15]", None),
        ("roundrobin", "T1=3", "C *@a: T1[0]; A *@z: T1[1]; B *: T1[2]", None),
        ("sticky", "T1=7", "A *: T1[0-2]; B *: T1[3,4]; C *: T1[5,6]", None),
        ("sticky", "t0=1 t1=2", "B t0,t1: t1[0,1]; C t0: t0[0]", None),
    ],
)
def test_unchanged_member_gets_its_prior_object(
    assignor: str, topics: str, members: str, kind: str | None
) -> None:
    image = parse_topics(topics)
    spec = spec_of(parse_members(members, image), kind)
    result = BUILT_IN[assignor]().assign(spec, ImageDescriber(image))
    unchanged = [key for key, member in spec.members.items() if member.assigned]
    assert unchanged
    for key in unchanged:
        assert result[key] is spec.members[key].assigned


@pytest.mark.parametrize("assignor", ["uniform", "sticky"])
@pytest.mark.parametrize("kind", ["homogeneous", "heterogeneous"])
def test_prior_partition_beyond_the_topic_is_dropped(assignor: str, kind: str) -> None:
    result = run(assignor, "T1=2", "A *: T1[1,5]; B *: T1[7]", kind)
    assert result == expected_of("A T1[1]; B T1[0]")


@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        ("", "A t0[0] t1[0]; B t0[1,2]; C t9[0-8]"),
        (" t9[9]", "A t0[2] t1[0]; B t0[0,1]; C t9[0-9]"),
    ],
)
def test_sticky_moves_new_partitions_first_unless_a_subscription_was_lost(
    lost: str, expected: str
) -> None:
    """t0[2] is placed on A before A takes t1[0] as well, and then one must go to B."""
    members = f"A t0,t1: t0[0]{lost}; B t0; C t1,t9: t9[0-8]"
    assert run("sticky", f"t0=3 t1=1 t9={10 if lost else 9}", members) == expected_of(expected)
