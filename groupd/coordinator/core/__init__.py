"""The pure core: same state + same input + same `now` = same outcome.

Handlers read hard state and return records; only `replay` writes hard state. Nothing here
awaits, reads a clock, draws entropy or logs.
"""
