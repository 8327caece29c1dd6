"""Workloads (e) and (f): many members join one group at once; one of many leaves."""
