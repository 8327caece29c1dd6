"""What a started daemon's /metrics says."""

from __future__ import annotations

import urllib.request
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    labels: dict[str, str]
    value: float


def samples(admin_url: str, name: str | None = None) -> list[Sample]:
    """All samples, or those of one name."""
    with urllib.request.urlopen(f"{admin_url}/metrics", timeout=TIMEOUT_S) as answer:
        text = answer.read().decode()
    return [
        Sample(sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if name is None or sample.name == name
    ]


def total(admin_url: str, name: str) -> float:
    """The sum of all samples of that name, of which there is one at least."""
    found = samples(admin_url, name)
    assert found, f"/metrics has no {name}"
    return sum(sample.value for sample in found)
