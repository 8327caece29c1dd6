"""The Kafka protocol without input and output: messages, records, and their bytes."""
