"""One client never costs another its session, its memory or its answer: attacks beside honest
clients, and what each attack costs them. `make attack` prints the table."""
