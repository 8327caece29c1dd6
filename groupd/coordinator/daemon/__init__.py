"""A daemon: makes its parts, connects them, starts and stops them."""
