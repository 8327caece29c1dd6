"""Makes the credentials of users from their passwords, as a client of Kafka does."""
