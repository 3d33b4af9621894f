"""Whether two commits make the same plans and kernels: the condition of a refactoring.

    python tools/replay.py BEFORE [AFTER] [--models DIR] [--target NAME] [--brief]

In: two commits (AFTER is the working tree when left out) and models. Out: a diff of their plans,
kernel specs and LLVM modules as emitted; exit code 0 when there is none, 1 when something changed.
Each commit is checked out in a temporary worktree and runs its own code. Models are the digits of
the examples and, with --models, every NAME-symbol.json of a folder that has NAME-io.npz beside it:
arrays under the names of the inputs, or one input as ``x``.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
DIGITS = ROOT / "examples" / "digits" / "digits-symbol.json"

# Runs on the code of either commit, so it uses only features of both. Nothing is compiled: modules
# are
# dumped as they are emitted, and the sink leaves when it has them. A kernel is written once.
WRITER = """
import importlib
import sys
from pathlib import Path
import numpy as np
from hybridjit import compiler

class Done(Exception):
    pass

def first(*places):
    for module, name in places:
        try:
            return importlib.import_module(f"hybridjit.{module}"), name
        except ImportError:
            pass
    raise SystemExit(f"none of {places} is there")

generator, shown = first(("codegen.emit.generate", "optimised_text"),
                         ("codegen.build.generate", "optimised_text"))
TensorType = first(("_core.types", ""), ("types", ""))[0].TensorType
setattr(generator, shown, lambda text, target, with_passes: text)
symbol_json, _ = first(("formats.mxnet.symbol_json", ""), ("io.symbol_json", ""))
compilation, _ = first(("compilation", ""), ("compiler", ""))
new_log = getattr(compiler, "new_log", None) or compiler.Journal

def write_kernels(text):
    for part in text.split("; kernel ")[1:]:
        name = part.split(None, 1)[0]
        path = Path(f"kernel-{name}.txt")
        if not path.exists():
            path.write_text("; kernel " + part, encoding="utf-8")

def write(file, given, name):
    def sink(number, stage, text):
        if stage == "llvm":
            write_kernels(text)
            raise Done
        Path(f"{name}-{stage}.txt").write_text(text + "\\n", encoding="utf-8")
    types = {n: TensorType(tuple(map(int, s.split(",") if s else ())), np.dtype(d))
             for n, d, s in (item.split(":") for item in given.split(";"))}
    log = new_log(("plan", "spec", "llvm"), sink)
    try:
        outputs = symbol_json.load(file)
        compilation.compile_graph(outputs, types, {}, compiler.Options(), log, name=name)
    except Done:
        pass
    except Exception as error:
        Path(f"{name}-error.txt").write_text(f"{type(error).__name__}: {error}\\n")

for line in sys.stdin:
    write(*line.rstrip("\\n").split("\\t"))
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Diff the plans and kernels of two commits.")
    parser.add_argument("before", help="a commit")
    parser.add_argument("after", nargs="?", help="another one (default: the working tree)")
    parser.add_argument("--models", type=Path, help="a folder of NAME-symbol.json, NAME-io.npz")
    parser.add_argument("--target", help="compile for this CPU, as HYBRIDJIT_TARGET says it")
    parser.add_argument("--brief", action="store_true", help="names of what changed, no diffs")
    args = parser.parse_args(arguments)
    jobs = [*_jobs(args.models)]
    with tempfile.TemporaryDirectory() as folder:
        texts = []
        for number, commit in enumerate((args.before, args.after)):
            out = Path(folder, f"{number}-texts")
            out.mkdir()
            with source_of(commit, Path(folder, f"{number}-tree")) as source:
                write_texts(source, out, jobs, args.target)
            texts.append({path.name: path.read_text(encoding="utf-8") for path in out.iterdir()})
    changed = [*differences(*texts, args.before, args.after or "working tree")]
    if args.brief:
        changed = [line[4:] for line in changed if line.startswith("--- ")]
    print("\n".join(changed) if changed else f"{len(texts[0])} texts, no difference")
    return 1 if changed else 0


def _jobs(models: Path | None) -> Iterator[str]:
    """A line for each model: its file, its inputs with dtypes and shapes, its name."""
    yield f"{DIGITS}\tdata:float32:1,1,28,28\tdigits"
    for file in sorted(models.glob("*-symbol.json")) if models else ():
        name = file.name.removesuffix("-symbol.json")
        recorded = file.with_name(f"{name}-io.npz")
        if not recorded.exists():
            print(f"{name}: left out, there is no {recorded.name}", file=sys.stderr)
            continue
        text = file.read_text(encoding="utf-8")
        arrays = np.load(recorded)
        named = {n: arrays[n] for n in arrays if f'"name": "{n}"' in text}
        given = named or {"data": arrays["x"]}
        items = (f"{n}:{a.dtype}:{','.join(map(str, a.shape))}" for n, a in given.items())
        yield f"{file.resolve()}\t{';'.join(items)}\t{name}"


@contextlib.contextmanager
def source_of(commit: str | None, folder: Path) -> Iterator[Path]:
    """The ``src`` folder of a commit, checked out for the length of the block."""
    if commit is None:
        yield ROOT / "src"
        return
    _git("worktree", "add", "--detach", "--quiet", str(folder), commit)
    try:
        yield folder / "src"
    finally:
        _git("worktree", "remove", "--force", str(folder))


def _git(*words: str) -> None:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"git {words[0]} {words[1]}: {done.stderr.strip()}")


def write_texts(source: Path, out: Path, jobs: Sequence[str], target: str | None) -> None:
    """The plan, the specs and the kernels of every model, by the code in ``source``."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HYBRIDJIT_")}
    if target:
        environment["HYBRIDJIT_TARGET"] = target
    subprocess.run(
        [sys.executable, "-c", WRITER],
        input="\n".join(jobs),
        text=True,
        cwd=out,
        env={**environment, "PYTHONPATH": str(source)},
        check=True,
    )


def differences(before: dict[str, str], after: dict[str, str], old: str, new: str) -> Iterator[str]:
    """A unified diff of every text that changed, appeared or went."""
    for name in sorted({*before, *after}):
        yield from difflib.unified_diff(
            before.get(name, "").splitlines(),
            after.get(name, "").splitlines(),
            f"{old} {name}",
            f"{new} {name}",
            n=1,
            lineterm="",
        )


if __name__ == "__main__":
    sys.exit(main())
