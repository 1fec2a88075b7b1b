"""Who gets which slots: from what is seen of the cluster to HarmonyGroups, by harmony_planner.

The group objects are the plan that holds: a job is admitted exactly when one of them lists it.
What is kept in memory besides (why others wait, what was measured lately) may be lost at any
time, and is made anew by the next pass.
"""
