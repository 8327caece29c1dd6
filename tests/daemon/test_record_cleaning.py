"""A recorded daemon that deletes and compacts records of topics: the replay does the same."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from tests.clients.test_topics_end import COMPACTED, DAY_MS, create, now_ms, produce, start_offset
from tests.daemon.test_record import replayed
from tests.support.daemon import Daemon
from tests.support.metrics import total
from tests.support.process import wait_until

FAST = {"log.retention.check.interval.ms": "50", "log.cleaner.backoff.ms": "50"}


def test_retention_and_compaction_are_replayed(tmp_path: Path) -> None:
    file = tmp_path / "r"
    arguments = ("--record", str(file))
    with closing(Daemon(tmp_path, topics={"old": 1}, settings=FAST, arguments=arguments)) as daemon:
        daemon.start()
        old = [(b"k", b"%d" % number) for number in range(20)]
        produce(daemon, "old", *old, at_ms=now_ms() - 8 * DAY_MS)
        produce(daemon, "old", (b"k", b"young"))
        create(daemon, "compact", COMPACTED)
        produce(daemon, "compact", *old)
        wait_until(lambda: start_offset(daemon, "old") == 20, 20, "retention")
        dropped = "groupd_compaction_records_dropped_total"
        wait_until(lambda: total(daemon.admin_url, dropped) >= 19, 20, "compaction")
        produce(daemon, "compact", (b"k", b"after"))
        daemon.stop()
    done = replayed(file)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "no difference in" in done.stdout
