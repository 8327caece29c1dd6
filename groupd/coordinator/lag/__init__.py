"""How far groups are behind: lag in records and in seconds, its last hour, and a judgement."""
