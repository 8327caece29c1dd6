"""What lies between the core and the sockets: shards, group commit, timers, waiting requests."""
