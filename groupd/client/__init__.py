"""A Kafka client on asyncio, for commands and for the nodes of a cluster to call each other."""
