"""Recurrent networks and sequences."""
