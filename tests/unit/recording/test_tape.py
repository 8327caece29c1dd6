"""The file of a recording: what is written is read, whatever happens on the way."""

from __future__ import annotations

import gzip
import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from groupd.coordinator.recording import tape as tape_module
from groupd.coordinator.recording.reader import BadRecording, RecordingFile
from groupd.coordinator.recording.tape import (
    FAILED,
    FORMAT,
    FULL,
    OVERFLOW,
    STOPPED,
    VERSION,
    CannotRecord,
    Tape,
)
from tests.support.examples import examples

HEAD = {FORMAT: VERSION, "version": "1"}
ENTRIES = st.lists(
    st.fixed_dictionaries(
        {"k": st.sampled_from(["frame", "reply"]), "m": st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=8,
        )}
    ),
    max_size=8,
)  # fmt: skip
EVERY_FILE = examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def written(path: Path, entries: list[dict[str, Any]]) -> bytes:
    path.unlink(missing_ok=True)
    tape = Tape(path, 1 << 20)
    tape.begin([HEAD])
    for entry in entries:
        tape.put(entry)
    tape.close()
    return path.read_bytes()


@EVERY_FILE
@given(ENTRIES)
def test_what_is_written_is_read(tmp_path: Path, entries: list[dict[str, Any]]) -> None:
    written(tmp_path / "r", entries)
    file = RecordingFile(tmp_path / "r")
    assert file.header == HEAD
    assert list(file.entries()) == entries
    assert (file.torn, file.end) == (False, STOPPED)


@EVERY_FILE
@given(ENTRIES, st.data())
def test_a_file_that_was_cut_anywhere_is_read_up_to_there(
    tmp_path: Path, entries: list[dict[str, Any]], data: st.DataObject
) -> None:
    whole = written(tmp_path / "r", entries)
    first = whole.index(b"\n") + 1
    cut = data.draw(st.integers(first, len(whole) - 1))
    (tmp_path / "cut").write_bytes(whole[:cut])
    file = RecordingFile(tmp_path / "cut")
    complete = whole[first:cut].count(b"\n")
    assert list(file.entries()) == entries[:complete]
    assert (file.torn, file.end) == (True, None)


def test_a_cut_packed_file_is_torn_and_a_whole_one_is_read(tmp_path: Path) -> None:
    entries = [{"k": "frame", "m": os.urandom(40).hex()} for _ in range(200)]
    packed = gzip.compress(written(tmp_path / "r", entries))
    (tmp_path / "r.gz").write_bytes(packed)
    assert list(RecordingFile(tmp_path / "r.gz").entries()) == entries
    (tmp_path / "r.gz").write_bytes(packed[: len(packed) // 2])
    file = RecordingFile(tmp_path / "r.gz")
    read = list(file.entries())
    assert 0 < len(read) < len(entries)
    assert read == entries[: len(read)]
    assert file.torn


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is no recording"),
        (b"# groupd\n", "is no recording"),
        (b'{"k":"frame"}\n', "is no recording"),
        (b'{"groupd-recording":2,"version":"9.9"}\n', "replay it with groupd 9.9"),
        (b'{"groupd-recording":1}\n{"k":1}\n', "line 2 is no entry"),
        (b'{"groupd-recording":1}\n{"k":"a"}\n[]\n', "line 3 is no entry"),
        (b'{"groupd-recording":1}\n{"k":\n{"k":"a"}\n', "line 2 is damaged"),
        (b'{"groupd-recording":1}\n' + b"[" * 100_000 + b"\n", "line 2 is damaged"),
    ],
)
def test_what_is_no_recording(tmp_path: Path, content: bytes, what: str) -> None:
    (tmp_path / "r").write_bytes(content)
    with pytest.raises(BadRecording, match=what):
        list(RecordingFile(tmp_path / "r").entries())


def test_a_line_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupd.coordinator.recording.reader.LINE_BYTES_MAX", 1000)
    (tmp_path / "r").write_bytes(b'{"groupd-recording":1}\n' + b"x" * 2000)
    with pytest.raises(BadRecording, match="line 2 is longer than 1000 bytes"):
        list(RecordingFile(tmp_path / "r").entries())


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(BadRecording, match="No such file"):
        RecordingFile(tmp_path / "none")


def test_nothing_is_overwritten_and_nobody_else_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "r"
    Tape(path, 1 << 20).discard()
    assert not path.exists()
    written(path, [])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(CannotRecord, match="exists already"):
        Tape(path, 1 << 20)
    with pytest.raises(CannotRecord, match="No such file"):
        Tape(tmp_path / "none" / "r", 1 << 20)


def test_it_ends_before_it_is_too_large(tmp_path: Path) -> None:
    tape = Tape(tmp_path / "r", 2000)
    tape.begin([HEAD])
    for number in range(100):
        tape.put({"k": "reply", "m": f"{number:050}"})
    tape.close()
    assert tape.ended == FULL
    tape.put({"k": "reply"})
    file = RecordingFile(tmp_path / "r")
    read = [int(entry["m"]) for entry in file.entries()]
    assert read == list(range(len(read)))
    assert len(read) > 10
    assert file.end == FULL
    assert (tmp_path / "r").stat().st_size <= 2000 + len('{"k":"end","reason":"limit"}\n')


def test_a_slow_disk_ends_the_recording_and_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, write = threading.Event(), os.write

    def slow(file: int, data: bytes) -> int:
        assert free.wait(10)
        return write(file, data)

    tape = Tape(tmp_path / "r", 1 << 20, queue_bytes_max=10_000)
    tape.begin([HEAD])
    monkeypatch.setattr(tape_module.os, "write", slow)
    for number in range(100):
        tape.put({"k": "frame", "m": number}, 1000)
    assert tape.ended == OVERFLOW
    free.set()
    tape.close()
    file = RecordingFile(tmp_path / "r")
    # What was queued is there, without a gap.
    read = [entry["m"] for entry in file.entries()]
    assert read == list(range(8))
    assert file.end == OVERFLOW


def test_a_full_disk_ends_the_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    tape = Tape(tmp_path / "r", 1 << 20)
    tape.begin([HEAD])

    def full(file: int, data: bytes) -> int:
        if len(data) > 10:
            return write(file, data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tape_module.os, "write", full)
    tape.put({"k": "frame", "m": "0123456"})
    tape.close()
    assert tape.ended == FAILED
    monkeypatch.undo()
    file = RecordingFile(tmp_path / "r")
    assert list(file.entries()) == []
    assert file.torn


def test_the_head_is_whole_or_there_is_no_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape = Tape(tmp_path / "r", 1 << 20)

    def full(file: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tape_module.os, "write", full)
    with pytest.raises(CannotRecord, match="No space left"):
        tape.begin([HEAD])
    tape.discard()


def test_lines_are_json_that_other_tools_read(tmp_path: Path) -> None:
    raw = written(tmp_path / "r", [{"k": "frame", "frame": b"\x00\xff"}])
    assert [json.loads(line) for line in raw.splitlines()] == [
        HEAD,
        {"k": "frame", "frame": {"$": "AP8="}},
        {"k": "end", "reason": "stopped"},
    ]
