"""How a client proves who it is: SASL mechanisms, and the exchange around them. Pure, without
sockets; `groupd.coordinator.server.sasl_gate` puts it into a connection."""
