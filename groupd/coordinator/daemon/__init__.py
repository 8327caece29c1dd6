"""A daemon: makes its parts, ties them together, starts and stops them."""
