"""The pool's memory, which driver and threads share, and access to it in emitted code.

The memory consists of 64-bit slots; slots that different threads write are on different cache
lines.
"""

from __future__ import annotations

from ..._core.frozen import dataclass
from ..._core.target import Target
from ..llvm import ir
from ..llvm.builder import LoopBuilder
from ..llvm.indices import Index
from ..llvm.types import I64, PTR, Type, Value

# The slots of the pool's memory.
_SEQUENCE = 0  # of the last job
_JOBS = 8  # two records: steps, first, last, threads, stamps; the sequence's parity selects one
ARRIVALS = 24  # threads at the barrier
ROUND = 32  # number of completed barriers
HURRIED = 33  # whether the last thread that waited there had to yield its core
CALLERS = 40
BUSY = 48  # whether the workers have a job
WORKERS = 56  # number of workers
HANDLE = 57  # where the system stores a new thread's handle
ORPHANED = 58  # whether this process is a fork's child, which lacks the workers
CALLER_POLL, WORKER_POLL = 64, 72  # poll structures of the caller's and the workers' kernels
# The chunks of a step that each thread has claimed: the caller's here, a worker's in its record.
CLAIMS = 104
RECORDS = 112  # one for each worker
# A step of a job: a kernel, its arguments, and up to how many threads continue without a barrier.
STEP_SLOTS = 3
# A worker's record: the pool, the worker's number, the last job before its start, whether it
# sleeps.
RECORD_SLOTS = 32
ASLEEP = 3
JOINED = 4  # the system's handle of a worker that is joined at the end
# The structure that a kernel polls: a function, called with its address. To stop a job, the
# function stores the number of the step; the caller's function checks signals, the workers' this
# slot.
POLL_SLOTS = 8
STOPPED = 1
NEXT = 2  # time of the next check in nanoseconds; 0 before the clock is read
STEP = 3  # the number of the current step
STATE = 4  # Python's state of this thread
HEARER = 5  # pthread_self() of the thread that handles signals
POOL = 6  # of the job; 0 for none
QUEUE = 7  # the claims of the job's threads; 0 without work stealing
# The system's mutex and condition: at most 64 bytes each on the x86 and ARM hosts of LLVM.
MUTEX, CONDITION = 8, 16
MAX_WORKERS = 1023
POOL_SLOTS = RECORDS + MAX_WORKERS * RECORD_SLOTS


@dataclass(frozen=True)
class PoolLayout:
    """A pool's memory: ``slots`` 64-bit integers, all zero, and slots for the caller's use.

    The caller must never free it.

    workers   slot with the number of workers
    orphaned  slot to be set to 1 in the child of a fork, which lacks the workers
    """

    slots: int = POOL_SLOTS
    workers: int = WORKERS
    orphaned: int = ORPHANED


PUBLIC = ("call", "share", "connect", "run_all")  # called from Python


def new_function(
    module: ir.Module, target: Target, name: str, result: Type, kinds: list[Type]
) -> tuple[LoopBuilder, ir.Function]:
    function = ir.Function(module, ir.FunctionType(result, kinds), name)
    if name not in PUBLIC:
        function.linkage = "internal"
    return LoopBuilder(function, target), function


def slot_at(lb: LoopBuilder, base: Value, slot: Index) -> Value:
    """The address of a 64-bit slot."""
    return lb.b.gep(base, [lb.i64(slot)], source_etype=I64)


def load_slot(lb: LoopBuilder, base: Value, slot: Index, kind: Type = I64) -> Value:
    return lb.b.load(slot_at(lb, base, slot), typ=kind, align=8)


def null() -> Value:
    return ir.Value(PTR, "null")


def first_number(lb: LoopBuilder, sequence: Index) -> Value:
    return lb.b.shl(lb.i64(sequence), lb.i64(32))


def job_record(lb: LoopBuilder, pool: Value, sequence: Index) -> Value:
    """The address of the job's record for a sequence number: one of two cache lines."""
    which = lb.mul(lb.b.and_(lb.i64(sequence), lb.i64(1)), 8)
    return slot_at(lb, pool, lb.add(which, _JOBS))


def claims_of(lb: LoopBuilder, queue: Value, thread: Index) -> Value:
    """The address of a thread's claims: negative while its share has unclaimed chunks."""
    return slot_at(lb, queue, lb.mul(thread, RECORD_SLOTS))


def worker_record(lb: LoopBuilder, pool: Value, number: Index) -> Value:
    """The address of a worker's record; ``number`` counts from 0."""
    return slot_at(lb, pool, lb.add(lb.mul(number, RECORD_SLOTS), RECORDS))
