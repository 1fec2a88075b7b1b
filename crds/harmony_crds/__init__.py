"""Writes the custom resource definitions and their reference from the models of `harmony_api`.

A tool of the build: nothing that runs imports it.
"""
