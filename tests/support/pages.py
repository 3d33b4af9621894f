"""Run the code blocks of a page of documentation, in order, in the current folder.

    python tests/support/pages.py PAGE.md

Blocks of Python share one namespace. A comment ``# -> text`` beside a ``print`` states the line
that it has to print. Lines of ``sh`` blocks run in a shell, except those of ``NOT_RUN``. Blocks of
other languages are not run. Exit code 1 and a traceback for the first failure.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from patience import PATIENCE

ROOT = Path(__file__).parent.parent.parent

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
PRINTED = re.compile(r"^\s*print\(.*\)  # -> (.*)$", re.M)
# They install packages, fetch, or take a cluster; test_readme.py checks that their files exist.
NOT_RUN = ("sh", "pip", "git", "docker", "mpirun", "gunicorn", "uvicorn", "curl", "mkdocs")


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """The language and the text of each fenced block."""
    for match in FENCED.finditer(page):
        yield match[1], match[2]


def command_lines(text: str) -> list[str]:
    """The commands of a ``sh`` block, continued lines joined, comments removed."""
    lines = text.replace("\\\n", " ").splitlines()
    bare = (re.sub(r"(^|\s\s)#.*", "", line).strip() for line in lines)
    return [line for line in bare if line]


def is_run(command: str) -> bool:
    words = [word for word in command.split() if "=" not in word.split("/")[0]]
    return bool(words) and words[0] not in NOT_RUN


def run_python(text: str, where: str, names: dict[str, object]) -> None:
    printed = io.StringIO()
    code = compile(text, where, "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    wanted = PRINTED.findall(text)
    lines = printed.getvalue().splitlines()
    if wanted and [line for line in lines if line in wanted] != wanted:
        raise AssertionError(f"{where} prints {lines}, and the page says {wanted}")


def run(*words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """A program with the environment's commands on its path."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, **settings}
    return subprocess.run(words, capture_output=True, text=True, env=environment, timeout=PATIENCE)


def main(page: str) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    for number, (language, text) in enumerate(blocks(Path(page).read_text(encoding="utf-8"))):
        if language == "python":
            run_python(text, f"{page}: block {number}", names)
        for command in command_lines(text) if language == "sh" else ():
            if is_run(command):
                print("$", command, flush=True)
                subprocess.run(["sh", "-ec", command], check=True)


if __name__ == "__main__":
    main(sys.argv[1])
