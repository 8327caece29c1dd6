"""`groupd groups`: which groups there are, what they committed and when, and how to restore it."""
