"""Gathering and selecting elements."""
