"""Folds over the log of one partition: records in their order in, facts about groups out.

Pure Python without Spark, so that the rules can be tested on records alone. Memory is the live
state of the groups (members, their partitions, what is not over yet), never their history.
Tolerant: a history may begin in the middle of a compacted log; what it does not tell stays null.
"""
