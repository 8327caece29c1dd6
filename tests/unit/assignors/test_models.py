"""The quick assignors against docs/spec/assignors.md#3 to #7, word for word, over groups of up
to forty members."""

from __future__ import annotations

import random

import pytest

from groupd.coordinator.core.assignors.api import MemberSpec, SubscriptionType
from groupd.coordinator.core.assignors.simple import RangeAssignor
from groupd.coordinator.core.assignors.spec import AssignmentSpec, ImageDescriber
from groupd.coordinator.core.assignors.uniform import UniformAssignor
from groupd.coordinator.core.metadata_image import MetadataImage, TopicImage
from tests.support.uniform_model import (
    HeterogeneousModel,
    as_assignments,
    homogeneous_model,
    range_model,
)

ROUNDS = 60
MEMBERS_MAX = 40
PARTITIONS_MAX = 30


class Case:
    """A random group: a few subscriptions that many share, priors that are partly stale."""

    def __init__(self, draw: random.Random, *, mixed: bool) -> None:
        topics = [bytes([draw.randrange(256), *bytes(14), i]) for i in range(draw.randint(1, 7))]
        self.counts = {topic: draw.randrange(PARTITIONS_MAX) for topic in topics}
        kinds = [
            frozenset(draw.sample(topics, draw.randint(0, len(topics))))
            for _ in range(draw.randint(1, 4) if mixed else 1)
        ]
        ids = [f"m{draw.randrange(10_000)}" for _ in range(draw.randint(1, MEMBERS_MAX))]
        keys = sorted(set(ids))
        priors: dict[str, dict[bytes, list[int]]] = {key: {} for key in keys}
        kept, favourites = draw.random(), draw.sample(keys, draw.randint(1, len(keys)))
        for topic in sorted(topics):
            for partition in range(self.counts[topic] + 1):
                if draw.random() < kept:
                    priors[draw.choice(favourites)].setdefault(topic, []).append(partition)
        self.members = {
            key: MemberSpec(draw.choice(kinds), {t: tuple(ps) for t, ps in priors[key].items()})
            for key in keys
        }
        self.spec = AssignmentSpec(
            self.members,
            SubscriptionType.HETEROGENEOUS if mixed else SubscriptionType.HOMOGENEOUS,
        )
        self.topics = ImageDescriber(
            MetadataImage(TopicImage(t, t.hex(), count) for t, count in self.counts.items())
        )
        self.subscribed = {
            topic: count
            for topic, count in self.counts.items()
            if any(topic in spec.topic_ids for spec in self.members.values())
        }


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_the_quick_assignors_do_what_the_spec_says(seed: int, mixed: bool) -> None:
    case = Case(random.Random(seed), mixed=mixed)
    uniform = UniformAssignor().assign(case.spec, case.topics)
    model = (
        HeterogeneousModel(case.members, case.counts).run()
        if mixed
        else homogeneous_model(case.members, case.counts)
    )
    assert uniform == as_assignments(model)
    ranges = RangeAssignor().assign(case.spec, case.topics)
    assert ranges == as_assignments(range_model(case.members, case.subscribed))
