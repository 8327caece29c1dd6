"""Kafka's sockets: listeners, TLS, SASL, connections, and the replies of each in order."""
