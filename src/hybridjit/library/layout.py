"""Memory layout of a library's records: variants, contexts and workspaces.

All records consist of 64-bit slots. A *variant* is the code for one CPU with its tables, constant
data next to the code. A *context* is made by ``init``. A *workspace* is the memory that a call
writes besides the outputs: the slots that kernels poll, the table of steps, their arguments,
working memory for each thread and for all threads, and the arena.
"""

from __future__ import annotations

from ..codegen.emit.pool_memory import POLL_SLOTS

# A variant: the CPU features it requires (four words, see cpu.py) and its name; its tables, each
# a count and an address; sizes of working memory; whether a call is too small for threads.
NEEDS, NAME = 0, 4
SLOTS = 5  # the arguments of all kernels, with 0 for addresses
RELOCATIONS = 7  # rows of slot, base, offset
PATCHES = 9  # rows of slot, array, offset, bytes of a round
CALLS = 11  # rows of kernel, first slot
SCRATCH, SHARED, ARENA, IS_SMALL = 13, 14, 15, 16
LEARNED = 17  # training: the number of calls before the first update
RELOCATION_ROW, PATCH_ROW, CALL_ROW = 3, 4, 2

# Bases of relocations: parts of a workspace, the weights, and the states of a context.
BASES = IN_ARENA, IN_WEIGHTS, IN_SCRATCH, IN_SHARED, AT_FLAG, IN_STATE = range(6)

# A context.
VARIANT, WEIGHTS, MAPPED, THREAD_COUNT, OWN, IS_BUSY, POOL, PROCESS = range(8)
MAPPING, STATE = 8, 9
CONTEXT_SLOTS = 16

# A workspace.
FLAG = POLL_SLOTS
STEPS = 2 * POLL_SLOTS
