"""`groupd configs`: settings of topics, groups and brokers of any Kafka cluster."""
