"""Shares by weight: a member whose `group.instance.id` ends in `.w3` gets three times as many
partitions of a topic as one without. Members keep what they have as far as their share allows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from groupd.coordinator.core.assignors.api import (
    Assignment,
    AssignorError,
    GroupSpec,
    TopicDescriber,
)

WEIGHT = re.compile(r"\.w(\d+)$")
WEIGHT_MAX = 100


class WeightedAssignor:
    """Members vote for it by this name (`group.remote.assignor=weighted`)."""

    name = "weighted"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Mapping[str, Assignment]:
        """Topic by topic. Raises AssignorError for a weight that makes no sense."""
        weights = {one: weight_of(its.instance_id) for one, its in spec.members.items()}
        result: dict[str, dict[bytes, tuple[int, ...]]] = {one: {} for one in spec.members}
        for topic_id in sorted({t for its in spec.members.values() for t in its.topic_ids}):
            takers = [one for one, its in spec.members.items() if topic_id in its.topic_ids]
            count = max(topics.num_partitions(topic_id), 0)  # -1: the topic is gone
            quotas = shares({one: weights[one] for one in takers}, count)
            given: dict[str, list[int]] = {}
            for one in takers:
                prior = spec.members[one].assigned.get(topic_id, ())
                given[one] = [number for number in prior if number < count][: quotas[one]]
            taken = {number for numbers in given.values() for number in numbers}
            free = iter(number for number in range(count) if number not in taken)
            for one in takers:
                given[one] += [next(free) for _ in range(quotas[one] - len(given[one]))]
                if given[one]:
                    result[one][topic_id] = tuple(sorted(given[one]))
        return result


def weight_of(instance_id: str | None) -> int:
    """1 unless the instance id says otherwise."""
    found = WEIGHT.search(instance_id or "")
    weight = int(found[1]) if found else 1
    if not 1 <= weight <= WEIGHT_MAX:
        raise AssignorError(f"{instance_id}: a weight lies between 1 and {WEIGHT_MAX}")
    return weight


def shares(weights: Mapping[str, int], count: int) -> dict[str, int]:
    """`count` in proportion to the weights; what rounding leaves goes to the largest remainders,
    among equals to the first id, so that the same group always gets the same shares."""
    total = sum(weights.values())
    quotas = {one: count * weight // total for one, weight in weights.items()}
    by_remainder = sorted(weights, key=lambda one: (-(count * weights[one] % total), one))
    for one in by_remainder[: count - sum(quotas.values())]:
        quotas[one] += 1
    return quotas
