"""`groupd topics`: the topics of any Kafka cluster."""
