"""Groups, offsets, targets and assignors, pure: same state, input and time give the same outcome.

Handlers read hard state and return records; only `replay` writes hard state. Nothing here
awaits, reads a clock, draws entropy or logs.
"""
