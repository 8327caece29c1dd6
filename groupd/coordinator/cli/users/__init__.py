"""`groupd users`: who may log in to a cluster with SCRAM."""
