"""Hostile files guided by coverage, with atheris (``pip install hybridjit[fuzz]``).

    python tools/fuzz_coverage.py params CORPUS -runs=1000000
    python tools/fuzz_coverage.py json CORPUS -max_total_time=600

The folder CORPUS is filled with MXNet's own small files first, then with inputs that reach new
code; all words after the format are libFuzzer's. ``fuzz_files.py`` needs nothing installed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

with atheris.instrument_imports(include=["hybridjit.formats", "hybridjit.ops.attrs", "json"]):
    from hybridjit.formats.mxnet import params, symbol_json

from hostile import params_sources, symbol_sources  # noqa: E402
from reading import Bounds  # noqa: E402

READERS = {"params": params.loads, "json": symbol_json.loads}


def main() -> None:
    kind, corpus, *options = sys.argv[1:]
    folder = Path(corpus)
    folder.mkdir(parents=True, exist_ok=True)
    texts = [text.encode() for text, _ in symbol_sources()]
    for number, data in enumerate(params_sources() if kind == "params" else texts):
        (folder / f"seed-{number}").write_bytes(data)
    read = Bounds(READERS[kind], traced=False)
    atheris.Setup([sys.argv[0], str(folder), *options], lambda data: read(data) and None)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
