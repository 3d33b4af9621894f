"""No list of operators' names stands outside of ``ops/``: records are asked, handles are compared.

Every string in the sources that equals a name or an alias of an operator is found. MXNet's own
namespaces speak its names to users. Elsewhere a string may mean something else, and then stands in
``OTHER_WORDS`` with what it means.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hybridjit
from hybridjit.ops import all_ops

PACKAGE = Path(hybridjit.__file__).parent
NAMES = {name for op in all_ops() for name in (op.name, *op.aliases)}

# Modules that users import by MXNet's names.
NAMESPACES = {
    *("compat", "contrib", "gluon", "image", "initializer", "metric", "mod", "nd", "random"),
    *("rnn", "sym", "test_utils", "visualization"),
}

# Words that operators are called too, by file or folder, and what they mean there.
KINDS = {"concat", "norm", "one_hot", "pad", "softmax"}  # of kernels
OTHER_WORDS: dict[str, set[str]] = {
    "__init__.py": {"log"},  # a module
    "cli/model.py": {"gamma"},  # an input
    "codegen/kinds": KINDS,
    "codegen/kinds/conv": {"pad", "tile"},  # attributes of layers, fields of specs
    "codegen/kinds/gather": {
        "clip",
        "negative",
        "pick",
        "reverse",
        "take",
    },  # what is copied, and whence
    "codegen/kinds/image": {"ceil", "floor", "max"},  # functions of LLVM; how a region is pooled
    "codegen/kinds/norm.py": {"gamma", "moments"},  # an operand; what a row is divided by
    "codegen/kinds/pool.py": {"max", "pad"},  # attributes
    "codegen/kinds/reduction": {  # how partial results join
        *("argmax", "argmin", "max", "mean", "min", "nanprod", "nansum", "norm", "prod", "sum"),
    },
    "codegen/kinds/softmax.py": {"log_softmax", "softmin"},  # how a spec's exponentials end
    "codegen/llvm/ir.py": {"trunc"},  # an instruction
    "codegen/math": {  # functions of one number, as generated code calls them
        *("arccosh", "arcsinh", "arctanh", "cbrt", "ceil", "cos", "cosh", "erfinv", "floor"),
        *("gamma", "gammaln", "log10", "log2", "sin", "sinh", "sqrt", "tan", "trunc"),
    },
    "codegen/peak.py": {"round"},  # a loop's name
    "io/ndarray_iter.py": {"pad"},  # what a last batch is filled up with
    "ir/kinds.py": KINDS,
    "ir/roles.py": {"gamma"},  # an input
    "passes/layout.py": {"concat", "norm"},  # an attribute's value; part of a value's name
    "profiling.py": {"round"},  # a column
}
# All such strings together: lower it when there are fewer, never raise it.
BUDGET = 123


def found() -> Iterator[tuple[str, int, str]]:
    """File, line and text of each string outside that an operator is called, too."""
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        part = file.split("/")[0].removesuffix(".py")
        if part != "ops" and part not in NAMESPACES:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and node.value in NAMES:
                    yield file, node.lineno, str(node.value)


def is_other_word(file: str, word: str) -> bool:
    return any(
        word in words
        for place, words in OTHER_WORDS.items()
        if file == place or file.startswith(f"{place}/")
    )


def test_no_string_names_an_operator():
    named = [
        f"{file}:{line} {word}" for file, line, word in found() if not is_other_word(file, word)
    ]
    assert not named, "take the operator's handle, or ask its record for a trait"


def test_other_words_are_there():
    """What went is struck off the list."""
    seen = Counter(word for file, _, word in found() if is_other_word(file, word))
    listed = set().union(*OTHER_WORDS.values())
    assert listed == set(seen)


def test_there_are_no_more_of_them():
    count = sum(1 for _ in found())
    assert count <= BUDGET, "say it by a handle or a trait; another word has another spelling"


def test_a_name_is_found():
    tree = ast.parse('if value.op.name == "Convolution": pass')
    assert [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)] == ["Convolution"]
    assert "Convolution" in NAMES and not is_other_word("passes/fuse.py", "Convolution")
