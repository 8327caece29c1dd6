"""groupd, a Kafka group coordinator. Users import `groupd.testing`."""
