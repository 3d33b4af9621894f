"""Golden cases: differences, subjects without a case, and rewriting of files.

    python tools/golden.py                   diffs of the cases that differ; subjects without cases
    python tools/golden.py conv              of those cases alone that have this in their names
    python tools/golden.py --write [conv]    rewrite differing files; read them before a commit
    python tools/golden.py --list            every subject with its cases

A case is a file below ``tests/golden``: a sentence, claims (`acts: kernel conv`, `must not: pass
fuse`), a program of a few lines, and rulers (`---- plan`, `---- spec avx2`) before the outputs
come. To add one, write it without the outputs and run this with ``--write``;
``golden_case.py`` describes the format. Exit code: 1 if a case differs or has a wrong claim,
or a subject has no case.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

import golden_case  # noqa: E402
from golden_case import Case, case_text, claims, outcome_of, read_case, wrong_claims  # noqa: E402
from golden_coverage import SUBJECTS, missing  # noqa: E402


def main(arguments: Sequence[str] | None = None) -> None:
    assert __doc__
    first, _, rest = __doc__.partition("\n")
    parser = argparse.ArgumentParser(
        description=first, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="?", default="", help="part of the names of the cases")
    parser.add_argument("--write", action="store_true", help="rewrite the files that differ")
    parser.add_argument("--list", action="store_true", help="print the subjects and their cases")
    args = parser.parse_args(arguments)
    if args.write and os.environ.get("CI"):
        parser.error("--write is refused when CI is set: read and commit the files")
    cases = [read_case(path) for path in golden_case.all_files()]
    if args.list:
        print("\n".join(_listing(cases)))
    bad = [case for case in cases if args.part in case.name and not _is_right(case, args.write)]
    lacking = [] if args.part else missing(*claims(cases))
    print("\n".join([f"{len(cases)} cases, {len(bad)} of them wrong", *lacking]))
    sys.exit(1 if bad or lacking else 0)


def _is_right(case: Case, write: bool) -> bool:
    """Whether the file is current, or is now; prints differences."""
    path = golden_case.FOLDER / f"{case.name}.txt"
    outcome, text = outcome_of(case), path.read_text(encoding="utf-8")
    wrong = wrong_claims(case, outcome.facts)
    for line in wrong:
        print(f"{case.name}: {line}")
    should = case_text(case, outcome.texts)
    if text == should:
        return not wrong
    if write:
        path.write_text(should, encoding="utf-8")
        print(f"wrote {case.name}")
        return not wrong
    diff = difflib.unified_diff(text.splitlines(), should.splitlines(), n=1, lineterm="")
    print("\n".join([f"{case.name} differs", *list(diff)[2:]]))
    return False


def _listing(cases: Sequence[Case]) -> list[str]:
    acts, must_not = claims(cases)
    rows = []
    for subject in SUBJECTS:
        rows.append(f"{subject:<32}   acts      {', '.join(acts.get(subject, ['none']))}")
        rows.append(f"{'':<32}   must not  {', '.join(must_not.get(subject, ['none']))}")
    return rows


if __name__ == "__main__":
    main()
