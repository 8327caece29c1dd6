"""Requests of commands to a Kafka cluster: each call waits for its reply from `groupd.client`."""
