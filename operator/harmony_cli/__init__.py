"""The `harmony` command line and the local runner behind `harmony run`."""
