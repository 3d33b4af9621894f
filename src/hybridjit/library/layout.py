"""Where a library's functions find things: records beside the code, a context, a workspace.

All of it is 64-bit slots. A *variant* is the code for one CPU with all that it is called with, and
lies beside the code. A *context* is what ``init`` makes. A *workspace* is what one call writes to
besides the outputs: what its kernels poll, the table of steps, their arguments, working memory for
each thread and for all, and the arena.
"""

from __future__ import annotations

from ..codegen.build.pool_memory import POLL_SLOTS

# A variant: what it needs of the CPU (four words, see cpu.py), its name; its tables, each a count
# and an address; bytes of working memory; whether a call is too small for threads.
NEEDS, NAME = 0, 4
SLOTS = 5  # the arguments of all kernels; addresses are 0
RELOCATIONS = 7  # rows of slot, base, offset
PATCHES = 9  # rows of slot, array, offset, bytes of a round
CALLS = 11  # rows of kernel, first slot
SCRATCH, SHARED, ARENA, IS_SMALL = 13, 14, 15, 16
LEARNED = 17  # of a step: the calls that come before anything is updated
RELOCATION_ROW, PATCH_ROW, CALL_ROW = 3, 4, 2

# What a relocation counts from: bases of a workspace, the weights, and what a context learns.
BASES = IN_ARENA, IN_WEIGHTS, IN_SCRATCH, IN_SHARED, AT_FLAG, IN_STATE = range(6)

# A context.
VARIANT, WEIGHTS, MAPPED, THREAD_COUNT, OWN, IS_BUSY, POOL, PROCESS = range(8)
MAPPING, STATE = 8, 9
CONTEXT_SLOTS = 16

# A workspace.
FLAG = POLL_SLOTS
STEPS = 2 * POLL_SLOTS
