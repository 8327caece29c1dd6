"""Started nodes of one cluster, each a `groupd serve --cluster` process, over one PostgreSQL."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.daemon import Daemon
from tests.support.process import ChildProcess, wait_until

NODES = 3
SETTLE_S = 30.0
PAGE_S = 5.0


class ClusterOfDaemons:
    """`daemons` by number; each of them has a data directory and ports of its own. `env`,
    `settings` as for `Daemon`."""

    kind = "groupd"

    def __init__(
        self,
        directory: Path,
        store_url: str,
        *,
        count: int = NODES,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        self.store_url = store_url
        self.daemons: list[Daemon] = []
        self._topics, self._settings = dict(topics or {}), dict(settings or {})
        self._arguments = list(arguments)
        for _ in range(count):
            self.add()

    def add(self, store_url: str = "") -> Daemon:
        """One more node, not started. `store_url`: its own way to the database."""
        number = len(self.daemons)
        daemon = Daemon(
            self.directory / f"node-{number}",
            topics=self._topics if number == 0 else None,
            settings=self._settings,
            arguments=["--cluster", *self._arguments],
            env={"GROUPD_STORE": store_url or self.store_url},
        )
        self.daemons.append(daemon)
        return daemon

    @property
    def bootstrap(self) -> str:
        return ",".join(self.nodes)

    @property
    def nodes(self) -> list[str]:
        """Addresses of all nodes."""
        return [daemon.bootstrap for daemon in self.daemons]

    @property
    def admin_url(self) -> str:
        return self.daemons[0].admin_url

    @property
    def port(self) -> int:
        return self.daemons[0].port

    @property
    def process(self) -> ChildProcess:
        return self.daemons[0].process

    @property
    def pid(self) -> int:
        return self.daemons[0].pid

    def start(self) -> None:
        """Start all at once, and wait until each serves its share."""
        for daemon in self.daemons:
            daemon.launch()
        for daemon in self.daemons:
            daemon.wait_ready()
        self.settled()

    def settled(self) -> None:
        """Wait until every unit has an owner that is where the plan wants it, as every running node
        sees it."""
        wait_until(self.is_settled, SETTLE_S, "a settled cluster", self.logs)

    def taken_over(self, node_id: int) -> None:
        """Wait until nothing belongs to a node that has died, as every running node sees it."""
        wait_until(lambda: self._owns_nothing(node_id), SETTLE_S, "others to take over", self.logs)

    def _owns_nothing(self, node_id: int) -> bool:
        running = [daemon for daemon in self.daemons if daemon.process.running]
        return not any(
            node_id in (unit["owner"], unit["wanted"])
            for daemon in running
            for unit in self.page(daemon)["units"]
        )

    def is_settled(self) -> bool:
        running = [daemon for daemon in self.daemons if daemon.process.running]
        pages = [self.page(daemon) for daemon in running]
        return all(
            len(page["nodes"]) == len(running)
            and page["units_without_owner"] == 0
            and all(unit["owner"] == unit["wanted"] for unit in page["units"])
            for page in pages
        )

    def page(self, daemon: Daemon | None = None) -> dict[str, Any]:
        """`/cluster` of a node, by default of the first one that runs."""
        asked = daemon or next(one for one in self.daemons if one.process.running)
        with urllib.request.urlopen(f"{asked.admin_url}/cluster", timeout=PAGE_S) as answer:
            page: dict[str, Any] = json.load(answer)
        return page

    def node_id(self, daemon: Daemon) -> int:
        return int(self.page(daemon)["node"])

    def stop(self) -> None:
        """SIGTERM to all, one after the other; each must end in order."""
        for daemon in self.daemons:
            if daemon.process.running:
                daemon.stop()

    def kill(self) -> None:
        """SIGKILL to all."""
        for daemon in self.daemons:
            daemon.kill()

    def restart(self) -> None:
        """Kill all and start them again on the same ports."""
        for daemon in self.daemons:
            if daemon.process.running:
                daemon.kill()
            daemon.process.close()
        self.start()

    def close(self) -> None:
        for daemon in self.daemons:
            daemon.close()

    def logs(self) -> str:
        return "\n".join(
            f"--- node {number}\n{daemon.logs()}" for number, daemon in enumerate(self.daemons)
        )
