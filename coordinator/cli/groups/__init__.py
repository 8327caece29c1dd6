"""`groupd groups`: what groups there are, what they committed when, and how to bring it back."""
