"""Generates a realistic log of consumer groups, for demonstrations, tests and benchmarks."""
