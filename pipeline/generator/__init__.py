"""A log of consumer groups as it could have been: for demonstrations, tests and benchmarks."""
