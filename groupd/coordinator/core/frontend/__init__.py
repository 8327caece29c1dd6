"""What is checked before a request reaches its shard: access rights and topic metadata."""
