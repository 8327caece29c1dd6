"""groupd alone: heartbeats, commits, fetches, joins, memory and recovery."""
