"""Between core and sockets: shards, group commit, timers, waiting requests."""
