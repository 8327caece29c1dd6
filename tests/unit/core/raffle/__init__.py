"""An invented group type: a raffle, in which every member holds one numbered ticket until the draw.

It shows what a group type consists of. A real one is such a folder under
`groupd/coordinator/core`, its messages and records under `groupd/protocol`, and a line in
`groupd/coordinator/core/group_types.py`.
"""
