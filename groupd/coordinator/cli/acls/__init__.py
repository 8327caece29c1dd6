"""`groupd acls`: who may do what with a cluster."""
