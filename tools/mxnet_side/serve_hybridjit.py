"""Answers requests with hybridjit; a process of its own, so that a crash is a finding.

The switches (``HYBRIDJIT_TARGET``, ``HYBRIDJIT_NUM_THREADS``) are in the environment. In: one JSON
object per line on standard input. Out: one per line, ``{"ok": true}`` or ``{"refused": "why"}``.
"""

import json
import sys
import traceback
import warnings

warnings.filterwarnings("ignore")

import hybridjit as mx  # noqa: E402
from hybridjit import gluon  # noqa: E402


def run(request):
    """Import the two files, run eagerly or hybridized, write the outputs."""
    arrays = mx.nd.load(request["inputs"])
    net = gluon.SymbolBlock.imports(request["symbol"], list(arrays), request["params"])
    flags = {} if request["winograd"] is None else {"winograd": request["winograd"]}
    net.hybridize(active=request["compiled"], **flags)
    for _ in range(2 if request["compiled"] else 1):  # twice: buffers are used again
        result = net(*arrays.values())
    outputs = result if isinstance(result, (list, tuple)) else [result]
    mx.nd.save(request["out"], list(outputs))


def main():
    for line in sys.stdin:
        request = json.loads(line)
        try:
            run(request)
            answer = {"ok": True}
        except Exception as error:
            lines = str(error).splitlines() or [""]
            answer = {"refused": f"{type(error).__name__}: {lines[0][:300]}"}
            if not isinstance(error, (mx.MXNetError, AssertionError)):
                answer["refused"] += "\n" + traceback.format_exc()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
