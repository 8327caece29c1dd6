"""Sockets, admin HTTP, metrics: the outermost layer of the daemon."""
