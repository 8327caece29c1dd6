"""A small blocking Kafka client for the command line, on the codecs of `protocol.wire`."""
