"""Loads of a group coordinator, from a compiled generator, against any Kafka address."""
