"""Generated parts of the documentation are current, and measurement records are complete."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
RECORDS = sorted((ROOT / "docs" / "performance").glob("*.json"))


def test_generated_parts_are_current():
    words = [sys.executable, str(ROOT / "tools" / "docs.py"), "--check"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, f"run: python tools/docs.py\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_measurement_record_has_its_origin(path):
    record = json.loads(path.read_text(encoding="utf-8"))
    assert record["cpu"] and record["unit"] and record["commands"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", record["date"])
    assert re.fullmatch(r"[0-9a-f]{8,40}", record["commit"])
    assert {len(row) for row in record["rows"]} == {len(record["columns"])}
    assert set(record["geometric_mean"]) <= set(record["columns"])


def test_every_measurement_record_is_shown():
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    shown = re.findall(r"<!-- generated: performance (.+?) -->", page)
    assert sorted(" ".join(shown).split()) == sorted(path.stem for path in RECORDS)
