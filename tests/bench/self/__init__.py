"""groupd alone: heartbeats, commits, fetches, joins, memory, recovery, and several workers."""
