"""The suites of tools/check: one module each, and what they share.

A suite is a function that takes a Context and returns the Cases that it ran.
"""
