"""Hostile bytes at a started groupd, with an honest client beside it: `make fuzz SECONDS=...`."""
