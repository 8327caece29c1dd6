"""Kafka's coordinator records and record batches: the contents of a log."""
