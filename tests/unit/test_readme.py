"""README.md and docs/ agree with the code: code runs, links resolve, tables are current."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import hybridjit
from hybridjit._core.config import switch_table
from pages import ROOT, blocks, command_lines, run

try:
    import tomllib
except ImportError:  # Python 3.10: pytest depends on its forerunner there
    import tomli as tomllib

DOCS = ROOT / "docs"
PACKAGE = ROOT / "src" / "hybridjit"
README = (ROOT / "README.md").read_text(encoding="utf-8")
AT_ROOT = [ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")]
PAGES = [*AT_ROOT, *sorted(DOCS.rglob("*.md"))]
WITH_CODE = [
    page for page in PAGES if re.search(r"^```(python|sh)$", page.read_text(encoding="utf-8"), re.M)
]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def test_code_of_the_readme_runs(checkout):
    """tests/unit/test_pages.py runs that of docs/."""
    program = str(ROOT / "tests/support/pages.py")
    done = run(sys.executable, "-W", "error", program, str(ROOT / "README.md"))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert (checkout / "small-symbol.json").exists() and (checkout / "small-0000.params").exists()


def test_scripts_that_pages_name_exist():
    """Also those of commands that the tests do not run."""
    for page in WITH_CODE:
        for language, text in blocks(page.read_text(encoding="utf-8")):
            for command in command_lines(text) if language in ("sh", "console") else ():
                for script in re.findall(
                    r"(?:^|\s)((?:tools|examples|tests)/[\w./-]+\.\w+)", command
                ):
                    assert (ROOT / script).exists(), f"{page.name}: {command}"


@pytest.mark.parametrize("script", ["tools/demo", "tools/test", "tools/environment"])
def test_shell_scripts_parse(script):
    done = run("sh", "-n", str(ROOT / script))
    assert done.returncode == 0, done.stderr


def test_readme_is_short():
    assert len(README.splitlines()) <= 200


def test_dump_writes_numbered_stages(checkout):
    model = ("examples/digits/digits", "--shape", "data=1,1,28,28")
    words = ("hybridjit", "dump", *model, "--after", "all", "--out", "stages")
    done = run(sys.executable, "-m", *words)
    assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in (checkout / "stages").rglob("*.txt"))
    assert names[:2] == ["00-trace.txt", "01-infer.txt"]


def test_the_table_of_switches_is_the_one_of_the_code():
    assert switch_table() in (DOCS / "reference" / "switches.md").read_text(encoding="utf-8")
    assert switch_table() in run(sys.executable, "-m", "hybridjit", "switches").stdout


TOPS = (PACKAGE, *(PACKAGE / name for name in ("codegen", "ops", "passes")), ROOT)


def test_source_layout_names_existing_folders():
    """Every folder of the package is listed, and every listed name is a file or folder."""
    page = (DOCS / "internals" / "layout.md").read_text(encoding="utf-8")
    listing = next(text for _, text in blocks(page) if text.startswith("src/hybridjit/"))
    named = [re.split(r" {2,}", line.strip())[0] for line in listing.splitlines()]
    words = {word.rstrip("/") for name in named for word in name.split()}
    folders = {p.name for p in PACKAGE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders <= words
    for word in words - {"src/hybridjit"}:
        places = [top / word for top in TOPS]
        assert any(place.exists() for place in places), word


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_and_named_files_exist(page):
    text = page.read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)]+)\)", prose):
        file, _, anchor = target.partition("#")
        found = page.parent / file if file else page
        assert found.exists(), f"{page.name}: {target}"
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found), f"{page.name}: {target}"
    for name in re.findall(r"`((?:examples|src|tests|tools|docs)/[\w./-]+\.\w+)`", prose):
        assert (ROOT / name).exists(), f"{page.name}: {name}"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as Markdown renderers make them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def test_every_page_is_in_the_navigation():
    listed = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(
        [p.relative_to(DOCS).as_posix() for p in DOCS.rglob("*.md")]
        + [page.name for page in AT_ROOT if page.name != "README.md"]
    )


# Guarantees

GUARANTEES = tomllib.loads((DOCS / "guarantees.toml").read_text(encoding="utf-8"))["guarantee"]


def test_guarantees_have_the_titles_of_their_page():
    heads = re.findall(r"^### (\d+)\. (.+)$", (DOCS / "guarantees.md").read_text("utf-8"), re.M)
    said = [(int(number), title.replace("`", "")) for number, title in heads]
    assert said == [(each["number"], each["title"]) for each in GUARANTEES]
    assert [number for number, _ in said] == list(range(1, len(said) + 1))


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=lambda each: str(each["number"]))
def test_guarantee_names_tests_that_exist(guarantee):
    assert guarantee["tests"], "no test holds this promise"
    for test in guarantee["tests"]:
        file, *names = test.split("::")
        found = list((ROOT / "tests").rglob(file))
        assert len(found) == 1, f"{test}: {len(found)} files of that name"
        source = found[0].read_text(encoding="utf-8")
        for name in names:
            assert name.lower().startswith("test")
            assert re.search(rf"^\s*(?:def|class) {name}\b", source, re.M), f"no test {test}"


def test_the_version_is_said_once():
    assert "version" not in re.findall(
        r"^(\w+) =", (ROOT / "pyproject.toml").read_text().partition("[tool")[0], re.M
    )
    assert re.fullmatch(r"\d+\.\d+\.\d+", hybridjit.__version__)
