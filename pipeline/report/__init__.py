"""One page about consumer groups, out of the tables of the jobs; it needs nothing but itself."""
