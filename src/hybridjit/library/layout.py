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

# The context's own workspace has this size, if calls give sizes.
OWN_BYTES = 10

# A workspace: the flag, whether the call is too small for threads, and the table of steps.
FLAG, IS_SMALL_CALL = POLL_SLOTS, POLL_SLOTS + 1
STEPS = 2 * POLL_SLOTS

# A library whose calls give sizes. Its variants have, after their names, a byte for each point of
# the grid of sizes, the number of its part, and the table of parts.
PART_NUMBERS, PARTS = 5, 6
# A part: see SizedTables in parts.py. Tables have a count and an address, others an address.
INSTRUCTIONS, PART_SIZES, PART_ARRAYS, PART_SHAPES, CALLS_OF_PART, PART_SLOTS = 0, 2, 3, 4, 5, 7
PART_CALL_ROW, PART_SLOT_ROW = 5, 3
# More bases: 0 for plain numbers, and the addresses of the call's arrays.
NOTHING, FIRST_ARRAY = 6, 7
# A frame: the facts of a call on the stack. Places in the workspace are in bytes; bases and the
# registers of the part's instructions follow.
PART, BATCH_SIZE, STEP_COUNT, SMALL, SLOTS_AT, SCRATCH_AT, SHARED_AT, ARENA_AT, ROOM = range(9)
FIRST_BASE = 9
