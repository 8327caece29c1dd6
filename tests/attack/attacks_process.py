"""What happens to the process itself: it stands still, it has no memory, it has no descriptors."""

from __future__ import annotations

import os
import resource
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.attack import frames
from tests.attack.attack import Attack
from tests.attack.scene import Ended, Scene

STOPPED_S = 60.0
HEADROOM = 32 << 20
LARGE = 60 << 20
SPARE = 30


def stop(scene: Scene, _: Any) -> None:
    """All processes of the broker stand still for the time of the attack, and go on."""
    for pid in scene.victim.pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(scene.seconds)
    finally:
        for pid in scene.victim.pids:
            os.kill(pid, signal.SIGCONT)
    scene.got.note = f"stood still for {scene.seconds:.0f} s"


def no_memory(scene: Scene, _: Any) -> None:
    """The broker's address space may not grow any more; then come requests of 60 MB."""
    pid = scene.victim.pids[-1]
    _, hard = resource.prlimit(pid, resource.RLIMIT_AS)
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmSize:"):
            size = int(line.split()[1]) * 1024 + HEADROOM
    resource.prlimit(pid, resource.RLIMIT_AS, (size, hard))
    groups = frames.describe_groups(frames.repeated(frames.NONE, LARGE))
    asked = [
        ("DescribeGroups of 60 MB", groups),
        ("Produce of 60 MB", frames.produce("honest", bytes(LARGE))),
    ]
    while scene.go_on():
        for one in asked:
            with suppress(Ended):
                scene.link(within_s=2).ask(one[1], one[0])


def no_descriptors(scene: Scene, _: Any) -> None:
    """The broker may open 30 more descriptors; 500 connections come, again and again."""
    pid = scene.victim.pids[0]
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (highest + 1 + SPARE, hard))
    try:
        while scene.go_on():
            links = scene.links(500)
            for link in links:
                try:
                    link.send(frames.metadata_all())
                except Ended:
                    continue
            scene.rest(0.5)
            scene.got.closed += sum(link.is_closed() for link in links)
            for link in links:
                link.close()
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


def nothing(scene: Scene, _: Any) -> None:
    """How long the honest wait on this machine when nobody attacks."""
    scene.rest(scene.seconds)


ATTACKS = (
    Attack("nothing", "nothing", nothing),
    Attack(
        "SIGSTOP",
        "the process stands still (SIGSTOP)",
        stop,
        stands_still=True,
        newcomers=False,
        at_least_s=STOPPED_S,
        from_issue=True,
    ),
    Attack(
        "no memory",
        "its address space may not grow; requests of 60 MB",
        no_memory,
        peers=("groupd",),
        newcomers=False,
        soils=True,
        from_issue=True,
    ),
    Attack(
        "no descriptors",
        "its descriptors are limited; 500 connections at a time",
        no_descriptors,
        soils=True,
        newcomers=False,
        from_issue=True,
    ),
)
