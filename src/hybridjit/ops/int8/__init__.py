"""MXNet's operators on 8-bit values.

Input: bytes (int8 or uint8) and their ranges, float32 arrays of shape (1,). Output: bytes or int32
sums, and their range. The formulas are those of MXNet 1.9.1 with oneDNN in the same order, so that
all results are equal bit for bit.
"""
