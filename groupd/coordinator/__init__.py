"""groupd's coordinator: core, runtime, server, topics, command line."""
