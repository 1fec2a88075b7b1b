"""What a run was: figures, tables, pictures and traces made from its folder alone.

Everything is derived from `run.json` and what the processes recorded, never from the runner's
memory, so a run can be reported again later, and after a crash.
"""
