"""The world of Harmony's own model: slots, phases that share them, and what goes wrong there.

Its policies run in the same event loop as all others. What differs is where the speeds come
from: here a job's speed follows from the phases of the jobs on its slots, and not from a
constant for so many jobs.
"""
