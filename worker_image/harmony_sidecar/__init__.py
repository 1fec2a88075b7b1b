"""The sidecar of a worker: takes part in the node's permits and measures phases."""
