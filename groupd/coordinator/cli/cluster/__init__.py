"""`groupd cluster`: the nodes of a cluster, as one of them shows them."""
