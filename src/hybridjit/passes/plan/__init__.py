"""Passes from the fused graph to the plan: groups, batches, memory offsets, verification."""
