"""How commands ask a Kafka cluster: they wait for each reply of `groupd.client`."""
