"""Harmony's own parameter server: dense shards, sparse tables, and the client of a worker.

`layout` decides which server holds which bytes, `rounds` when an update may happen; both are
pure. `shard` owns a server's tensors, `server` its sockets, `client` the worker's side.
Importing the package imports nothing, so that its light modules stay light.
"""
