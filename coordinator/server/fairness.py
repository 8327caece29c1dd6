"""What all connections of a process share, so that none of them takes more than its part."""

from __future__ import annotations

from msgspec import Struct

from groupd.coordinator.config import CoordinatorConfig
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.loop_stalls import LoopStalls
from groupd.coordinator.server.byte_budget import ByteBudget, limit_of
from groupd.coordinator.server.decoding import Decoder
from groupd.coordinator.server.turns import RequestTurns


class Fairness(Struct, frozen=True):
    """`turns`: who may start requests. `decoder`: makes requests of frames. `work`: whatever takes
    long, in slices. `budget`: the memory that connections hold."""

    turns: RequestTurns
    decoder: Decoder
    work: LongWork
    budget: ByteBudget


def fairness(
    config: CoordinatorConfig, stalls: LoopStalls, work: LongWork, clock: Clock
) -> Fairness:
    """The fairness of a process. `stalls`: measures its loop; `work`: that of its broker; `clock`:
    that of the sockets."""
    budget = ByteBudget(limit_of(config), clock)
    return Fairness(RequestTurns(stalls), Decoder(config.request_max_items), work, budget)
