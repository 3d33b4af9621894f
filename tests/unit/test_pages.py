"""The code of every page of docs/ runs: Python blocks and commands in order."""

from __future__ import annotations

import re
import shutil
import sys

import pytest

from pages import ROOT, run

PAGES = [
    page
    for page in (*sorted((ROOT / "docs").rglob("*.md")), ROOT / "CONTRIBUTING.md")
    if re.search(r"^```(python|sh)$", page.read_text(encoding="utf-8"), re.M)
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_code_of_a_page_runs(page, checkout):
    if re.search(r"^cc ", page.read_text(encoding="utf-8"), re.M) and not shutil.which("cc"):
        pytest.skip("the page compiles a C program, which needs a C compiler: none is installed")
    words = (sys.executable, "-W", "error", str(ROOT / "tests" / "support" / "pages.py"), str(page))
    done = run(*words)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
