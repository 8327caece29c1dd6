"""The nodes of a cluster: membership, ownership of units, and handing them over."""
