"""Deterministic simulator: the real broker (shards, journal, writer, routes) on virtual time,
over a simulated disk and network, used by model clients of both group protocols.

One seed decides everything: options, faults, delays, what clients do. A run has two phases: faults
for a while, with safety checked after every step, then everything heals and every group must
become stable within a bounded time. `python -m tests.simulator --seed N -v` repeats a run.
"""
