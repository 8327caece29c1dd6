"""An episode: something that happens to a group again and again, counted while it goes on."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct, field

from groupd.pipeline.fold.findings import MANY


class Episode(Struct):
    """`recent`: the instants of the last occurrences, those within the window. `peak`: the greatest
    number of them within one window. `names`: the first `MANY` names of what it happened to. Times
    are milliseconds since 1970."""

    recent: list[int] = field(default_factory=list)
    first_ms: int = 0
    last_ms: int = 0
    count: int = 0
    peak: int = 0
    names: list[str | int] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    def note(self, at_ms: int, window_ms: int, name: str | int, kind: str = "") -> None:
        self.recent = [*(one for one in self.recent if one > at_ms - window_ms), at_ms]
        if len(self.recent) == 1:
            self.first_ms, self.count, self.peak = at_ms, 0, 0
            self.names, self.kinds = [], Counter()
        self.last_ms = at_ms
        self.count += 1
        self.peak = max(self.peak, len(self.recent))
        if len(self.names) < MANY:
            self.names.append(name)
        self.kinds[kind] += 1

    def is_over(self, at_ms: int, window_ms: int) -> bool:
        return bool(self.recent) and self.last_ms <= at_ms - window_ms
