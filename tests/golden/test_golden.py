"""Golden cases: every file below ``tests/golden`` contains the compiler's output for its program.

``python tools/golden.py`` shows differences and subjects without a case; with ``--write`` it
rewrites the files.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent.parent / "tools"))

import golden
import golden_case
from golden_case import (
    CaseError,
    all_files,
    case_text,
    outcome_of,
    parse_case,
    read_case,
    wrong_claims,
)
from golden_coverage import SUBJECTS, missing, unknown
from golden_loops import longest_loop

FILES = all_files()
LONGEST = 150  # lines of a file: more are not read

SMALL = """A relu is a kernel of its own.
acts: kernel pointwise

x = data f32[4]
return relu(x)
---- plan
---- spec avx2
"""


def name_of(path: Path) -> str:
    return path.relative_to(golden_case.FOLDER).with_suffix("").as_posix()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_each_golden_file_is_current(path: Path):
    case = read_case(path)
    outcome = outcome_of(case)
    text = path.read_text(encoding="utf-8")
    assert text == case_text(case, outcome.texts), "python tools/golden.py --write, and read it"
    assert not wrong_claims(case, outcome.facts)
    assert len(text.splitlines()) <= LONGEST, "make the program smaller, or show less of it"


def test_every_subject_has_a_case_and_a_counterexample():
    """A new kind of kernel, pass or rule comes with its cases."""
    lacking = missing(*golden_case.claims(map(read_case, FILES)))
    assert not lacking, "\n".join(["python tools/golden.py --help says how:", *lacking])


def test_titles_of_cases_are_unique():
    titles = Counter(read_case(path).title for path in FILES)
    assert [title for title, count in titles.items() if count > 1] == []
    assert len(FILES) >= 150


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SMALL.replace("own.", "own"), "ends in a full stop"),
        (SMALL.replace("acts:", "shows:"), "no `key: value`"),
        (SMALL.replace("kernel pointwise", "kernel pointless"), "no subject"),
        (SMALL.replace("---- plan", "---- plam"), "'plam' is not a ruler"),
        (
            SMALL.replace("---- plan", "---- spec avx2"),
            "'spec avx2' is not a ruler, or is repeated",
        ),
        (SMALL.partition("----")[0], "no ruler with expected output"),
        (SMALL.replace("f32", "f31"), "f31 is none of"),
        (SMALL.replace("relu(x)", "rely(x)"), "no operator is called rely"),
        (SMALL.replace("return ", "y = "), "returns nothing"),
    ],
    ids=["title", "key", "subject", "ruler", "twice", "rulers", "type", "operator", "return"],
)
def test_a_file_that_is_no_case_is_refused(text: str, message: str):
    with pytest.raises(CaseError, match=message):
        outcome_of(parse_case("small", text))


def test_a_claim_that_is_wrong_is_found():
    case = parse_case("small", SMALL)
    facts = outcome_of(case).facts
    assert wrong_claims(case, facts) == []
    case.keys |= {"acts": "kernel conv", "must not": "kernel pointwise"}
    assert [line.split(":")[0] for line in wrong_claims(case, facts)] == ["acts", "must not"]


def test_subjects_without_a_case_are_reported():
    every = {subject: ["small"] for subject in SUBJECTS}
    assert missing(every, every) == []
    (line,) = missing(every, every | {"kernel conv": []})
    assert line.startswith("kernel conv (") and line.endswith("`must not: kernel conv`")
    assert unknown(["kernel conv", "kernel convex", "group host"]) == ["kernel convex"]


def test_targets_are_those_of_the_records():
    """The text for a target that is not this machine's is there, and differs."""
    text = SMALL + "".join(f"---- llvm {name}\n" for name in golden_case.TARGETS)
    texts = outcome_of(parse_case("small", text)).texts
    widths = [f"<{n} x float>" in texts[f"llvm {t}"]
              for t, n in (("avx512", 16), ("avx2", 8), ("sse2", 4), ("neon", 4))]  # fmt: skip
    assert all(widths)


LOOPS = """define void @f(ptr %args)
{
entry.1:
  %n.1 = load i64, ptr %args
  br label %i.head.2
i.head.2:
  %i.2 = phi i64 [ 0, %entry.1 ], [ %i.7, %j.after.5 ]
  %v.3 = icmp slt i64 %i.2, %n.1
  br i1 %v.3, label %j.head.3, label %i.after.6
j.head.3:
  %j.4 = phi i64 [ 0, %i.head.2 ], [ %j.6, %j.body.4 ]
  %v.5 = icmp slt i64 %j.4, %n.1
  br i1 %v.5, label %j.body.4, label %j.after.5
i.after.6:
  ret void
j.body.4:
  %j.6 = add <2 x i64> %j.4, <i64 1, i64 1>
  br label %j.head.3
j.after.5:
  %i.7 = add i64 %i.2, 1
  br label %i.head.2
}
"""


def test_the_innermost_loop_is_cut_out():
    assert longest_loop(LOOPS).splitlines() == [
        "its longest innermost loop",
        "j.head.0:",
        "  %j.1 = phi i64 [ 0, %i.head.2 ], [ %j.3, %j.body.4 ]",
        "  %v.5 = icmp slt i64 %j.1, %n.6",
        "  br i1 %v.5, label %j.body.4, label %j.after.7",
        "j.body.4:",
        "  %j.3 = add <2 x i64> %j.1, splat (i64 1)",
        "  br label %j.head.0",
    ]
    straight = "define void @f()\n{\nentry.1:\n  ret void\n}"
    assert longest_loop(straight) == f"no loop\n{straight}"


# --- the tool ---


def test_the_tool_writes_and_reports_changed_files(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setattr(golden_case, "FOLDER", tmp_path)
    monkeypatch.delenv("CI", raising=False)
    file = tmp_path / "small.txt"
    file.write_text(SMALL)

    def run(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            golden.main(words)
        assert ended.value.code  # other subjects have no case
        return capsys.readouterr().out

    before = run()
    assert "small differs" in before and "+plan case   1 steps" in before
    assert file.read_text() == SMALL
    assert "wrote small" in run("--write") and "spec avx2\nspecs of case" in file.read_text()
    after = run("--write")
    assert "wrote" not in after and "1 cases, 0 of them wrong" in after
    assert "kernel conv (" in after and "kernel pointwise (a step's kernel" in after
    assert "kernel pointwise                   acts      small" in run("--list")
    file.write_text(SMALL.replace("acts", "must not"))
    assert "small: must not: kernel pointwise, but it does" in run("small")


def test_the_tool_does_not_write_in_ci(monkeypatch, capsys):
    monkeypatch.setenv("CI", "true")
    with pytest.raises(SystemExit):
        golden.main(["--write"])
    assert "refused when CI is set" in capsys.readouterr().err
