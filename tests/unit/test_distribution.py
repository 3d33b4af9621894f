"""The source distribution: all that its tests need, and the licences of all that it holds."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
# Files that tools generate.
MADE = re.compile(r"(^|/)(\.|__pycache__|[^/]*\.egg-info)|\.py[cod]$")


def of_manifest(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The files that ``MANIFEST.in`` names, by setuptools' own rules."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip("setuptools.command.egg_info")
    monkeypatch.chdir(ROOT)
    found = module.FileList()
    for line in (ROOT / "MANIFEST.in").read_text().splitlines():
        found.process_template_line(line)
    return {name.replace("\\", "/") for name in found.files}


def test_a_source_distribution_has_all_files_of_its_tests(monkeypatch):
    held = of_manifest(monkeypatch)
    for folder in ("src", "tests", "tools", "examples", "docs"):
        paths = (path for path in (ROOT / folder).rglob("*") if path.is_file())
        names = {path.relative_to(ROOT).as_posix() for path in paths}
        wanted = {name for name in names if not MADE.search(name)}
        assert wanted and wanted <= held, sorted(wanted - held)[:5]
    assert {"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "mkdocs.yml", ".ci/run"} <= held
    assert not [name for name in held if name.endswith(".pyc")]


def test_every_licence_is_declared():
    text = (ROOT / "pyproject.toml").read_text()
    patterns = re.findall(r'"([^"]+)"', re.search(r"^license-files = \[(.*)\]", text, re.M)[1])
    declared = {path for pattern in patterns for path in ROOT.glob(pattern)}
    there = set(ROOT.glob("src/**/*LICEN*")) | {ROOT / "LICENSE"}
    assert declared == there
    assert 'license = "Apache-2.0 AND MIT"' in text
    for path in there - {ROOT / "LICENSE"}:
        assert "Permission is hereby granted, free of charge" in path.read_text()  # MIT's words
