"""What a campaign has found, as data and as text."""

from __future__ import annotations

from collections import Counter

import msgspec

from groupd.protocol.wire.apis import API_BY_KEY
from tests.attack.honest import Report
from tests.attack.waits import Spread, Wait
from tests.attack.witness import Testimony
from tests.fuzz.guide import Reached
from tests.fuzz.storm import Storm


class Verdict(msgspec.Struct):
    """What a campaign has found. `resident`: (seconds since the start, bytes)."""

    seconds: float = 0.0
    storms: list[Storm] = []
    reached: Reached | None = None
    resident: list[tuple[float, int]] = []
    honest: Report | None = None
    witness: Testimony | None = None
    stalls: int = 0
    longest_stall_ms: float = 0.0
    processor_s: float = 0.0
    wrong: list[str] = []

    @property
    def judged(self) -> int:
        return sum(storm.judged for storm in self.storms)

    @property
    def honest_lost(self) -> list[str]:
        """Each way in which an honest client was harmed: fenced, lost, or with a wrong ledger."""
        report = self.honest
        if report is None:
            return ["no report of the honest clients"]
        return [str(one) for one in (*report.fenced, *report.lost, *report.ledger)]


def line_of(verdict: Verdict) -> str:
    """A line about how far the campaign is."""
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
    storms = verdict.storms
    return (
        f"{verdict.judged:,} frames answered or ended their connection"
        f" ({sum(storm.frames for storm in storms):,} sent) in {verdict.seconds:,.0f} s:"
        f" {verdict.judged / max(verdict.seconds, 1):,.0f}/s;"
        f" {sum(storm.fresh for storm in storms):,} of them newly changed,"
        f" {sum(storm.survived for storm in storms):,} of those answered"
    )


def _connections(verdict: Verdict) -> str:
    storms = verdict.storms
    ways = sum((Counter(storm.ways) for storm in storms), Counter[str]())
    doors = sum((Counter(storm.doors) for storm in storms), Counter[str]())
    return (
        f"{sum(storm.connections for storm in storms):,} connections,"
        f" {sum(storm.ended for storm in storms):,} ended by groupd; "
        + ", ".join(f"{count:,} {way}" for way, count in ways.most_common())
        + "\nby listener and login: "
        + ", ".join(f"{door} {count:,}" for door, count in doors.most_common())
    )


def _honest(verdict: Verdict) -> str:
    report, witness = verdict.honest, verdict.witness
    if report is None or witness is None:
        return "honest clients: no report"
    return (
        f"honest clients: {report.requests:,} answers; p99 and longest wait:"
        f" {_both(report.whole)} on the clock, {_both(report.own)} without the machine's part,"
        f" {_both(report.worked)} of groupd's processor time in it: "
        + ", ".join(f"{name} {_both(spread)}" for name, spread in report.by_client.items())
        + f"\nthe longest: {', '.join(map(_wait, report.waits[:5]))}"
        f"\nwitness: slept {witness.wakes:,} times 5 ms and woke {_both(witness.late)} late"
    )


def _both(spread: Spread) -> str:
    return f"{spread.p99 * 1000:.1f} and {spread.longest * 1000:.1f} ms"


def _wait(wait: Wait) -> str:
    return (
        f"{wait.what} {wait.seconds * 1000:.0f} of {wait.whole * 1000:.0f} ms,"
        f" {wait.worked * 1000:.0f} of work"
    )


def _loop(verdict: Verdict) -> str:
    each_us = 1e6 / max(verdict.judged, 1)
    storms_s = sum(storm.processor_s for storm in verdict.storms)
    return (
        f"event loop: {verdict.stalls} stalls of 50 ms and more,"
        f" {verdict.longest_stall_ms:.0f} ms the longest of the last minute;"
        f" {verdict.processor_s:,.0f} s of processor, {verdict.processor_s * each_us:.0f} us a"
        f" frame; of the storms {storms_s:,.0f} s, {storms_s * each_us:.0f} us a frame"
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
