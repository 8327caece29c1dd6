"""What tests share: processes, peers (groupd or a real Kafka), and raw sockets."""
