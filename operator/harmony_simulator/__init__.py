"""Discrete-event simulation of a cluster on job traces, by the planner's own decisions."""
