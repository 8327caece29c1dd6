"""What all connections of a process share, so that none of them takes more than its part."""

from __future__ import annotations

from msgspec import Struct

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.loop_stalls import LoopStalls
from groupd.coordinator.server.byte_budget import ByteBudget, limit_of
from groupd.coordinator.server.crowds import Crowds
from groupd.coordinator.server.decoding import Decoder
from groupd.coordinator.server.receiving import ReadBuffer
from groupd.coordinator.server.turns import RequestTurns


class Fairness(Struct, frozen=True):
    """`turns`: who may work on what it has received. `decoder`: makes requests of frames. `work`:
    whatever takes long, in slices. `budget`: the memory that connections hold. `crowds`: gives it
    back to the system when many have gone. `read_buffer`: where their reads go."""

    turns: RequestTurns
    decoder: Decoder
    work: LongWork
    budget: ByteBudget
    crowds: Crowds
    read_buffer: ReadBuffer


def fairness(
    config: CoordinatorConfig, stalls: LoopStalls, work: LongWork, clock: Clock
) -> Fairness:
    """The fairness of a process. `stalls`: measures its loop; `work`: that of its broker; `clock`:
    that of the sockets."""
    budget = ByteBudget(limit_of(config), clock)
    decoder = Decoder(config.request_max_items)
    turns, buffer = RequestTurns(stalls), ReadBuffer(stalls)
    return Fairness(turns, decoder, work, budget, Crowds(budget), buffer)
