"""What a campaign has found, as data and as text."""

from __future__ import annotations

from collections import Counter

import msgspec

from groupd.protocol.wire.apis import API_BY_KEY
from tests.fuzz.guide import Reached
from tests.fuzz.storm import Storm


class Verdict(msgspec.Struct):
    """`resident`: (seconds since the start, bytes); waits in milliseconds."""

    seconds: float = 0.0
    storms: list[Storm] = []
    reached: Reached | None = None
    resident: list[tuple[float, int]] = []
    honest_requests: int = 0
    honest_p99_ms: float = 0.0
    honest_max_ms: float = 0.0
    honest_worst: list[str] = []
    honest_lost: list[str] = []
    stalls: int = 0
    longest_stall_ms: float = 0.0
    processor_s: float = 0.0
    wrong: list[str] = []

    @property
    def judged(self) -> int:
        return sum(storm.judged for storm in self.storms)


def line_of(verdict: Verdict) -> str:
    """How far it is."""
    storms = verdict.storms
    at, size = verdict.resident[-1]
    connections = sum(storm.connections for storm in storms)
    return (
        f"{at:6.0f} s  {verdict.judged:>11,} frames judged, {verdict.judged / at:,.0f}/s,"
        f" {connections:,} connections, {sum(storm.parked for storm in storms):,} parked,"
        f" RSS {size >> 20} MB"
    )


def figures(verdict: Verdict) -> str:
    """All that is known, for people."""
    lines = [_frames(verdict), _connections(verdict), _honest(verdict), _loop(verdict)]
    lines += [_memory(verdict), _apis(verdict)]
    if (reached := verdict.reached) is not None:
        lines.append(
            f"guided before that: {reached.runs:,} streams, {reached.covered:,} places in groupd's"
            f" code reached, {reached.streams:,} streams reach them all"
        )
    wrong = [f"WRONG: {one}" for one in (*verdict.wrong, *verdict.honest_lost)]
    return "\n".join([*lines, *wrong])


def _frames(verdict: Verdict) -> str:
    sent = sum(storm.frames for storm in verdict.storms)
    survived = sum(storm.survived for storm in verdict.storms)
    return (
        f"{verdict.judged:,} frames answered or ended their connection ({sent:,} sent) in"
        f" {verdict.seconds:,.0f} s: {verdict.judged / max(verdict.seconds, 1):,.0f}/s;"
        f" {survived:,} newly changed ones were answered"
    )


def _connections(verdict: Verdict) -> str:
    ways = sum((Counter(storm.ways) for storm in verdict.storms), Counter[str]())
    return (
        f"{sum(storm.connections for storm in verdict.storms):,} connections,"
        f" {sum(storm.ended for storm in verdict.storms):,} ended by groupd; "
        + ", ".join(f"{count:,} {way}" for way, count in ways.most_common())
    )


def _honest(verdict: Verdict) -> str:
    return (
        f"honest client: {verdict.honest_requests:,} answers,"
        f" p99 {verdict.honest_p99_ms:.1f} ms, longest {verdict.honest_max_ms:.1f} ms:"
        f" {', '.join(verdict.honest_worst)}"
    )


def _loop(verdict: Verdict) -> str:
    each_us = verdict.processor_s / max(verdict.judged, 1) * 1e6
    return (
        f"event loop: {verdict.stalls} stalls of 50 ms and more,"
        f" {verdict.longest_stall_ms:.0f} ms the longest of the last minute;"
        f" {verdict.processor_s:,.0f} s of processor, {each_us:.0f} us a frame"
    )


def _memory(verdict: Verdict) -> str:
    sizes = [size >> 20 for _, size in verdict.resident] or [0]
    return (
        f"RSS: {sizes[0]} MB at first, {sizes[len(sizes) // 2]} MB half way, {sizes[-1]} MB at the"
        f" end, {max(sizes)} MB at most"
    )


def _apis(verdict: Verdict) -> str:
    keys = sum((Counter(storm.keys) for storm in verdict.storms), Counter[int]())
    names = (
        f"{API_BY_KEY[key].name if key in API_BY_KEY else f'unknown {key}'} {count:,}"
        for key, count in keys.most_common(len(API_BY_KEY))
    )
    return f"by API: {', '.join(names)}"
