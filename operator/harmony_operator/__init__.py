"""The Kubernetes operator: makes the cluster equal to the planner's answer, from what lives in it."""
