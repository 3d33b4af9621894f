"""Every kind of kernel with its memory adjacent to inaccessible pages (``guarded.py``).

A read or write one element outside ends the process, so it runs as a separate process.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from compiling import has_tiles
from hybridjit.codegen.kinds import all_emitters
from patience import PATIENCE

PROGRAM = Path(__file__).parent.parent / "support" / "guarded.py"
# Kinds whose vectors hold float64 where the data are that.
IN_DOUBLE = (
    *(
        "attention",
        "conv",
        "dense",
        "depthwise",
        "matmul",
        "pack",
        "pool",
        "lrn",
        "norm",
        "recurrent",
    ),
    *("region", "resize", "sample", "conv_weight", "depthwise_weight", "join_parts", "unpool"),
    *("recurrent_back", "suppress", "detect", "order", "propose"),
)
# Kinds without another element type, and those that need registers which only some CPUs have.
OF_BYTES, IN_TILES = {"byte_depthwise", "byte_matmul", "byte_winograd"}, {"byte_tiles"}
IN_BFLOAT16 = ("conv", "dense", "depthwise", "matmul", "pool", "winograd")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mprotect is called as on Linux")


def run_guarded(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAM), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


def test_nothing_outside_a_buffer_is_touched():
    done = run_guarded()
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"it ended at: {lines[-1:]}\n{done.stderr[-2000:]}"
    ran = lines[-1].split()
    assert {kind for kind in ran if ":" not in kind} == set(all_emitters()) - OF_BYTES - IN_TILES
    of_bytes = OF_BYTES | (IN_TILES if has_tiles() else set())
    assert {kind.partition(":uint8")[0] for kind in ran} >= of_bytes
    assert {f"{kind}:float64" for kind in IN_DOUBLE} <= set(ran)
    assert set(IN_BFLOAT16) <= {kind for kind, *_ in (n.partition(":bfloat16") for n in ran)}


def test_nothing_outside_is_touched_where_calls_give_sizes_of_images():
    done = run_guarded("--open")
    assert done.returncode == 0, f"{done.stdout[-200:]}\n{done.stderr[-2000:]}"


@pytest.mark.parametrize("place", ["end", "start"])
def test_one_element_too_far_ends_the_process(place: str):
    assert run_guarded("--too-far", place).returncode < 0
