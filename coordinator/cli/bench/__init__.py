"""`groupd bench`: what this machine gets out of the daemon.

A load generator in one process, the daemon in another, both on loopback. Figures of different
machines, or of different runs on a noisy one, do not compare: quote ratios of one run.
"""
