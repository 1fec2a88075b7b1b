"""What a job is made of, as plain dicts: pure functions from observed values to objects.

Every object is what the API server takes (the tests read each with the official client's
models), carries the common labels, and is owned by its job, so that it goes with it.
"""
