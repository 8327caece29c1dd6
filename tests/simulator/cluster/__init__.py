"""The ownership protocol in virtual time: real `ClusterNode`s over a database that is simulated."""
