"""The local runner: a cluster's work on one machine, with plain processes.

Same manifests, planner, sidecars and workers as on Kubernetes; what kubelet, scheduler and
operator do there is done here by one single-threaded, level-based loop.
"""
