"""The contract between Harmony's parts: resources, node plans, profiles and the worker protocol.

Everything that two processes must agree on is defined here once. The package imports
pydantic only, and the modules on the permit path (`worker_protocol`, `environment`) not even
that; so nothing is imported here on behalf of its modules.
"""
