"""One small module of pure functions for each rule by which a job lives.

They look at a JobView and its Roster and say what follows; `reconcile` puts the answers in
their order, `status` writes them down.
"""
