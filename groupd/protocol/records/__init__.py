"""Kafka's coordinator records and record batches: what the log holds."""
