"""A real Kubernetes that the tests start and stop by themselves; `docs/test-cluster.md` tells how.

Nothing here knows Harmony's operator: it makes API servers, nodes and images, and the tests get a
kubeconfig. What is started here is stopped here, also when the test run is killed.
"""
