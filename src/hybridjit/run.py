"""``python -m hybridjit.run script.py [args]``: run an unchanged MXNet program on hybridjit.

The script runs as ``__main__`` with its arguments and its folder first on the path, as with
``python script.py``; but ``import mxnet`` imports hybridjit. ``-m package.module`` instead of the
file runs a module. Names that NumPy and Python's library have removed since MXNet's time
(``np.float``, ``collections.Mapping``) are restored for the program.
"""

from __future__ import annotations

import os
import runpy
import sys

from .compat import install_as_mxnet
from .compat.numpy_names import restore_numpy_names
from .compat.python_names import restore_python_names

USAGE = """\
usage: python -m hybridjit.run SCRIPT.py [ARGUMENT ...]
       python -m hybridjit.run -m MODULE [ARGUMENT ...]

Run a Python program in which `import mxnet` gives hybridjit."""


def main(arguments: list[str]) -> int:
    """Run the program named by ``arguments``. Returns 2 if they do not name one."""
    if arguments[:1] in (["-h"], ["--help"]):
        print(USAGE)
        return 0
    as_module = arguments[:1] == ["-m"]
    program = arguments[as_module:]
    if not program or program[0].startswith("-"):
        print(USAGE, file=sys.stderr)
        return 2
    if not as_module and not os.path.isfile(program[0]):
        print(f"hybridjit.run: no such file: {program[0]!r}", file=sys.stderr)
        return 2
    install_as_mxnet()
    restore_numpy_names()
    restore_python_names()
    _run_module(program) if as_module else _run_script(program)
    return 0


def _run_script(program: list[str]) -> None:
    sys.argv[:] = program
    sys.path[0] = os.path.dirname(os.path.realpath(program[0]))
    runpy.run_path(program[0], run_name="__main__")


def _run_module(program: list[str]) -> None:
    sys.argv[:] = program  # runpy replaces the first element by the module's file
    runpy.run_module(program[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
