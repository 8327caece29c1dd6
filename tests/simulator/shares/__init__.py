"""Share groups in the simulator: whole brokers without sockets, one alone or several of a cluster,
over a simulated store, with members of share groups, producers and administrators.

In a cluster the group coordinator, the share coordinator and the leader of a partition are mostly
on different nodes, and units move. One seed decides everything. A run has three phases: faults for
a while, then peace until everything is delivered, then a restart of all nodes after which nothing
may be delivered again. `python -m tests.simulator.shares --seed N -v` repeats a run.
"""
