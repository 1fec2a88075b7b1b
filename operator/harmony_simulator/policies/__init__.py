"""Policies under the charges of Muri's published simulator."""
