"""Benchmarks against other brokers, side by side in one run; docs/benchmarks.md has figures."""
