"""Every kind of kernel as AArch64 code, run under qemu.

Each network of ``test_listening.some_networks`` becomes an object for NEON; one program calls them
all, and its results are those of the references. Without a cross compiler and qemu it is skipped.
``tools/aarch64.py`` runs whole test files so, with a Python for AArch64.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_library import STRICT, ran, tool
from test_listening import some_networks

from compiling import assert_near, run_reference
from golden_coverage import OF_SYMBOLIC_SIZES
from hybridjit._core.types import product, type_of
from hybridjit.codegen.emit.module import emit_kernel
from hybridjit.codegen.kinds import all_emitters
from hybridjit.codegen.spec import KernelSpec
from hybridjit.codegen.targets import portable_target
from hybridjit.compiler import new_log
from hybridjit.library import build, variants
from hybridjit.library.interface import Interface
from neighbours import Network

CALL = """
static int run_{name}(FILE *from, FILE *to)
{{
    {name}_input inputs[] = {{{inputs}}};
    {name}_output outputs[] = {{{outputs}}};
    {name}_context *context;
    int code = {name}_init(&context, NULL, 1);
    if (code == 0)
        code = {name}_run(context, inputs, outputs, 1, NULL, 0);
    {name}_free(context);
    for (int i = 0; i < (int)(sizeof outputs / sizeof outputs[0]); i++)
        fwrite(outputs[i].data, 1, outputs[i].bytes, to);
    return code;
}}
"""
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
{includes}
static void *room(size_t bytes)
{{
    return aligned_alloc(64, (bytes + 127) / 64 * 64);
}}

static void *filled(size_t bytes, FILE *from)
{{
    void *data = room(bytes);
    if (fread(data, 1, bytes, from) != bytes)
        abort();
    return data;
}}
{calls}
int main(int argc, char **argv)
{{
    if (argc != 3)
        return 2;
    FILE *from = fopen(argv[1], "rb"), *to = fopen(argv[2], "wb");
    int code = 0;
{runs}
    return fclose(to) != 0 || code != 0;
}}
"""


class Part:
    """One network as an object for NEON, with its header."""

    def __init__(self, name: str, net: Network, folder: Path) -> None:
        self.name, self.net = name, net
        types = {n: type_of(a) for n, a in net.arrays.items()}
        network = build.Network(
            tuple(net.outputs),
            tuple(f"y{i}" for i in range(len(net.outputs))),
            {n: t for n, t in types.items() if n not in net.params},
            {n: t for n, t in types.items() if n in net.params},
            {n: a for n, a in net.arrays.items() if n in net.params},
            {},
        )
        targets = (portable_target("neon"),)
        request = build.Request(name, False, targets, False, False, net.options)
        built = build.build(network, request, new_log())
        self.interface: Interface = built.interface
        self.object = folder / f"{name}.o"
        self.object.write_bytes(b"".join(built.object()))
        (folder / f"{name}.h").write_text(built.header("0"))

    @property
    def inputs(self) -> list[np.ndarray]:
        return [np.ascontiguousarray(self.net.arrays[a.name]) for a in self.interface.inputs]

    def call(self) -> str:
        """C that reads the inputs from a file and writes the outputs to another."""
        upper, own = self.name.upper(), self.interface
        inputs = [f"{upper}_INPUT{i}_BYTES" for i in range(len(own.inputs))]
        outputs = [f"{upper}_OUTPUT{i}_BYTES" for i in range(len(own.outputs))]
        return CALL.format(
            name=self.name,
            inputs=", ".join(f"{{filled({n}, from), {n}}}" for n in inputs),
            outputs=", ".join(f"{{room({n}), {n}}}" for n in outputs),
        )


def program(parts: Sequence[Part]) -> str:
    """One program that runs them in their order."""
    return PROGRAM.format(
        includes="\n".join(f'#include "{part.name}.h"' for part in parts),
        calls="".join(part.call() for part in parts),
        runs="\n".join(f"    code |= run_{part.name}(from, to);" for part in parts),
    )


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The kinds of kernels of which code is made."""
    made: set[str] = set()

    def noted(spec: KernelSpec, *others: Any) -> Any:
        made.add(spec.kind)
        return emit_kernel(spec, *others)

    monkeypatch.setattr(variants, "emit_kernel", noted)
    return made


def outputs_of(parts: Sequence[Part], file: Path) -> list[list[np.ndarray]]:
    """The program's results, network by network."""
    data, at, found = file.read_bytes(), 0, []
    for part in parts:
        own = []
        for array in part.interface.outputs:
            count = product(array.shape)
            own.append(np.frombuffer(data, array.dtype, count, at).reshape(array.shape))
            at += count * array.dtype.itemsize
        found.append(own)
    assert at == len(data)
    return found


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the compiler is one for x86-64")
def test_every_kind_of_kernel(tmp_path, kinds):
    compiler, qemu = tool("aarch64-linux-gnu-gcc"), tool("qemu-aarch64")
    parts = [Part(f"net{i}", net, tmp_path) for i, net in enumerate(some_networks())]
    assert kinds == set(all_emitters()) - {"byte_tiles", *OF_SYMBOLIC_SIZES}
    (tmp_path / "all.c").write_text(program(parts))
    (tmp_path / "inputs").write_bytes(b"".join(x.tobytes() for p in parts for x in p.inputs))
    objects = [part.object for part in parts]
    linked = [*objects, "-static", "-lm", "-o", tmp_path / "all"]
    ran(compiler, *STRICT, f"-I{tmp_path}", tmp_path / "all.c", *linked)
    ran(qemu, tmp_path / "all", tmp_path / "inputs", tmp_path / "outputs")
    for part, found in zip(parts, outputs_of(parts, tmp_path / "outputs")):
        assert_near(found, run_reference(part.net.outputs, part.net.arrays))
