"""Makes one page about consumer groups from the tables of the jobs; the page needs no other
file."""
