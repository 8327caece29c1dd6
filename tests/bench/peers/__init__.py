"""The brokers of the benchmarks, all started and addressed in the same way."""
