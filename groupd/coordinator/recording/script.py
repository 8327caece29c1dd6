"""What a replay must know about the whole recording before it begins: which timers fire, and which
store operations begin and end."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct, field

from groupd.coordinator.recording.reader import RecordingFile


class Script(Struct):
    """`inputs`: the number of inputs. `restored`: the number of entries of the snapshot."""

    inputs: int = 0
    requests: int = 0
    timers: Counter[tuple[str, int]] = field(default_factory=Counter)
    began: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)


def survey(file: RecordingFile) -> Script:
    """Collect it in one pass over the file. Raises BadRecording."""
    script = Script()
    last = 0
    for entry in file.entries():
        kind = entry["k"]
        if "n" in entry:
            if entry["n"] != last + 1:
                raise file.bad(f"has number {entry['n']} after {last}")
            last += 1
        if kind == "timer":
            script.timers[str(entry.get("of")), _whole(file, entry.get("due"))] += 1
        elif kind == "began":
            script.began.add(str(entry.get("op")))
        elif kind == "stored":
            script.ended.add(str(entry.get("op")))
        elif kind == "frame":
            script.requests += 1
    script.inputs = last
    return script


def _whole(file: RecordingFile, value: object) -> int:
    if not isinstance(value, int):
        raise file.bad("has a time that is none")
    return value
