"""The decisions about groups, offsets, targets and assignors as pure code: the same state, input
and time give the same outcome.

Handlers read hard state and return records; only `replay` writes hard state. Nothing here awaits,
reads a clock, draws random numbers or writes logs.
"""
