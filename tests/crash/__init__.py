"""Real daemons that are killed at random moments under load; `python -m tests.crash` runs more."""
