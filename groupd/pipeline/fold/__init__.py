"""Folds over the log of one partition: takes its records in order and gives facts about groups.

It does not call the core's replay, because that keeps only a group's latest state and raises
ReplayError on a record that contradicts it. A fold reports what each record began and ended, and
takes logs that begin in the middle or are compacted: what they do not tell stays null.

The code is plain Python without Spark, so the rules can be tested on records alone. Memory holds
the live state of the groups (members, their partitions, what is not over yet), never their history.
"""
