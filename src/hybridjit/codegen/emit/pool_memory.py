"""What driver and threads share: the pool's memory, and reading it in emitted code.

The memory is 64-bit slots; what different threads write is on cache lines of its own.
"""

from __future__ import annotations

from ..._core.frozen import dataclass
from ..._core.target import Target
from ..llvm import ir
from ..llvm.builder import LoopBuilder
from ..llvm.indices import Index
from ..llvm.types import I64, PTR, Type, Value

# The pool's memory, in 64-bit slots; what different threads write is on cache lines of its own.
_SEQUENCE = 0  # of the last job
_JOBS = 8  # two records of steps, first, last, threads; the sequence's parity says which
ARRIVALS = 24  # threads at the barrier
ROUND = 32  # how often all have left it
HURRIED = 33  # whether the last that waited there had to give its core away first
CALLERS = 40
BUSY = 48  # whether the workers have a job
WORKERS = 56  # how many there are
HANDLE = 57  # where the system puts a new thread's
ORPHANED = 58  # whether this process is a fork's child, in which they are not
CALLER_POLL, WORKER_POLL = 64, 72  # what the caller's and the workers' kernels poll
# What each thread has claimed of a step's work; the caller's here, a worker's within its record.
CLAIMS = 104
RECORDS = 112  # one for each worker
# A step of a job: a kernel, its arguments, and of how many threads each goes on without a barrier.
STEP_SLOTS = 3
# A worker's record: the pool, the worker's number, the last job before it came, whether it sleeps.
RECORD_SLOTS = 32
ASLEEP = 3
JOINED = 4  # the system's handle of a worker that is waited for in the end
# What a kernel polls: a function, which is called with this. Where the function stops a job it
# leaves the number of the step; the caller's listens, the workers' look what came of it.
POLL_SLOTS = 8
STOPPED = 1
NEXT = 2  # when to listen again, in nanoseconds; 0 before the first look at the clock
STEP = 3  # the number of the step that is being done
STATE = 4  # Python's state of this thread
HEARER = 5  # pthread_self() of the thread in which there is something to hear
POOL = 6  # of the job; 0 for none
QUEUE = 7  # where the claims of the job's threads are; 0 where none takes another's work
# The system's mutex and condition: at most 64 bytes each on what LLVM's x86 and ARM hosts run.
MUTEX, CONDITION = 8, 16
MAX_WORKERS = 1023
POOL_SLOTS = RECORDS + MAX_WORKERS * RECORD_SLOTS


@dataclass(frozen=True)
class PoolLayout:
    """A pool's memory: so many 64-bit numbers, all zero; and places among them.

    Whoever makes it keeps it for good.
    workers   how many there are
    orphaned  1 is written in the child of a fork, where they are not
    """

    slots: int = POOL_SLOTS
    workers: int = WORKERS
    orphaned: int = ORPHANED


PUBLIC = ("call", "share", "connect", "run_all")  # what Python calls


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
    """Where a thread's claims are: negative while there is work of its share to take."""
    return slot_at(lb, queue, lb.mul(thread, RECORD_SLOTS))


def worker_record(lb: LoopBuilder, pool: Value, number: Index) -> Value:
    """The address of a worker's record; ``number`` counts from 0."""
    return slot_at(lb, pool, lb.add(lb.mul(number, RECORD_SLOTS), RECORDS))
