"""Rows as Markdown: one broker alone, or several side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.attack.results import Row

HEAD = (
    "| attack | worst wait of the honest, ms | idle, ms | fenced "
    "| memory before, at most, after, MB "
    "| what the attacker got | missed |\n|---|--:|--:|--:|--:|---|---|"
)


def megabytes(size: int) -> str:
    return f"{size / (1 << 20):,.0f}"


def milliseconds(row: Row) -> str:
    """How long the broker took, and with what the machine took where that is much more."""
    own, whole = row.wait_s * 1000, row.whole_s * 1000
    worst = max(row.waits, key=lambda wait: wait.seconds, default=None)
    who = f" ({worst.what.removeprefix('honest-')})" if worst is not None else ""
    shown = f"{own:,.0f}{who}"
    return f"{shown} of {whole:,.0f}" if whole > own * 1.5 and whole > 100 else shown


def got(row: Row) -> str:
    one = row.got
    parts = [f"{one.replies:,} replies, {_size(one.received)} for {_size(one.sent)}"]
    if one.slowest[0] >= 0.1:
        parts.append(f"slowest {one.slowest[0]:.2f} s {one.slowest[1]}".rstrip())
    if one.closed:
        parts.append(f"{one.closed:,} closed")
    if one.refused:
        parts.append(f"{one.refused:,} refused")
    if row.logged > 100_000:
        parts.append(f"{_size(row.logged)} of log")
    parts.append(f"{row.processor_s:.1f} s of processor")
    if one.note:
        parts.append(one.note)
    return "; ".join(parts)


def _size(count: int) -> str:
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def line(row: Row) -> str:
    memory = f"{megabytes(row.before)}, {megabytes(row.together)}, {megabytes(row.after)}"
    if row.back_s:
        memory += f" in {row.back_s:.0f} s"
    cells = (
        milliseconds(row),
        f"{row.idle_s * 1000:,.0f}",
        str(row.members_fenced),
        memory,
        got(row),
    )
    return f"| {row.attack} | {' | '.join(cells)} | {'; '.join(row.misses())} |"


def side_by_side(rows: Sequence[Row], what: Mapping[str, str]) -> str:
    """One line for each attack, with the worst wait, the fenced and the memory of each broker."""
    peers = list(dict.fromkeys(row.peer for row in rows))
    found = {(row.attack, row.peer): row for row in rows}
    lines = [
        "| attack | " + " | ".join(peers) + " |",
        "|---|" + "---|" * len(peers),
    ]
    for attack in dict.fromkeys(row.attack for row in rows):
        cells = [_brief(found.get((attack, peer))) for peer in peers]
        lines.append(f"| {what.get(attack, attack)} | {' | '.join(cells)} |")
    lines += ["", "Each cell: worst wait of the honest, highest memory, members fenced."]
    return "\n".join(lines)


def _brief(row: Row | None) -> str:
    if row is None:
        return "–"
    if row.failed:
        return row.failed
    parts = [f"{row.wait_s * 1000:,.0f} ms", f"{megabytes(row.peak)} MB"]
    if row.fenced:
        parts.append(f"**{row.members_fenced} fenced**")
    if row.lost:
        parts.append(f"{len(row.lost)} lost")
    if not row.answers:
        parts.append("**dead**")
    return ", ".join(parts)
