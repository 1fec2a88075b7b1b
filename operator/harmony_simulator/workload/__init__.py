"""Parameter-server jobs as people submit them, from what the project's own examples cost."""
