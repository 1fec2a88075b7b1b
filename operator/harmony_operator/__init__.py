"""The Kubernetes operator: makes a cluster equal to the planner's answer, from what lives in it."""
