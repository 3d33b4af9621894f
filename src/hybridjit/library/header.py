"""The header of a library, for C11 and C++.

Input: an interface. Output: the header's text. Names of arrays may contain any character: the
characters that C permits form identifiers, and strings are escaped.
"""

from __future__ import annotations

from .interface import (
    ALIGNMENT,
    Array,
    Interface,
    identifier,
)

_TYPES = {
    "float16": "uint16_t, the bits of a half",
    "float32": "float",
    "float64": "double",
    "bool": "uint8_t, 0 or 1",
}


def header_text(interface: Interface, version: str) -> str:
    """The complete header; ``version`` is the compiler's."""
    name, macro = interface.name, interface.name.upper()
    text = _calls_text(interface) + (_SEED if interface.draws else "")
    calls = text.format(name=name, macro=macro, alignment=ALIGNMENT, batch=_batch_text(interface))
    return _HEADER.format(
        name=name,
        macro=macro,
        what="a step of training" if interface.trains else "a network",
        version=version,
        targets=", ".join(interface.targets),
        abi=interface.abi,
        alignment=ALIGNMENT,
        sizes=_sizes_text(interface),
        weights=_weights_text(interface),
        threads=_threads_text(interface),
        inputs=_arrays_text(interface, "INPUT", interface.inputs),
        outputs=_arrays_text(interface, "OUTPUT", interface.outputs),
        states=_states_text(interface),
        codes="\n".join(_code_lines(macro, interface)),
        input_count=len(interface.inputs),
        output_count=len(interface.outputs),
        belongs=_BELONGS[interface.trains],
        numbered=_numbered(interface),
        calls=calls,
    )


def _calls_text(interface: Interface) -> str:
    if interface.trains:
        return _WORKSPACE + _STEP
    return _SHAPES + _SIZED_RUN if interface.sizes else _WORKSPACE + _RUN


def _numbered(interface: Interface) -> str:
    if interface.trains:
        return "; for STATE_BYTES that of the state"
    return (
        "; for SIZE_BOUND that of the size, for REFUSED_SIZES of a reason"
        if interface.sizes
        else ""
    )


def _sizes_text(interface: Interface) -> str:
    """Definitions of the sizes that calls give, or of the largest batch."""
    macro = interface.name.upper()
    if not interface.sizes:
        return f"#define {macro}_MAX_BATCH INT64_C({interface.max_batch})"
    bounds = {bound.name: bound for bound in interface.bounds}
    lines = [f"#define {macro}_SIZES {len(interface.sizes)}"]
    for number, name in enumerate(interface.sizes):
        bound = bounds.get(name)
        what = f"{bound}" if bound else f"{name} is the number of samples, at least 1"
        lines.append(f"#define {macro}_SIZE_{name} {number} /* {what} */")
    counts = [len(array.shape) for array in interface.outputs]
    return "\n".join([*lines, f"#define {macro}_OUTPUT_SIZES {sum(counts)}"])


def c_string(text: str) -> str:
    """A string as a C literal: ASCII, without trigraphs."""
    parts = []
    for byte in text.encode("utf-8", "backslashreplace"):
        char = chr(byte)
        is_plain = char.isascii() and char.isprintable() and char not in '"\\?'
        parts.append(char if is_plain else f"\\{byte:03o}")
    return f'"{"".join(parts)}"'


def _batch_text(interface: Interface) -> str:
    if interface.any_batch:
        return "number of samples in each array; the arrays have that multiple of the bytes above"
    return "1: the arrays have the sizes above"


def _weights_text(interface: Interface) -> str:
    if interface.weights:
        return f"the path of {interface.weights}, which is mapped and must not change"
    return "NULL: the weights are inside the library"


def _threads_text(interface: Interface) -> str:
    if interface.threads:
        return "number of threads, the caller's included; freeing the context ends the others"
    return "1: this library was compiled without threads"


def _arrays_text(interface: Interface, side: str, arrays: tuple[Array, ...]) -> str:
    lines: list[str] = []
    for number, array in enumerate(arrays):
        prefix = f"{interface.name.upper()}_{side}{number}"
        each = " of one sample" if interface.any_batch else ""
        sizes = ", ".join(map(str, interface.shape(array))) or "a scalar"
        element = _TYPES.get(array.dtype.name, f"{array.dtype.name}_t")
        lines += [
            f"/* {side.lower()} {number}: [{sizes}] of {element}, the last axis the fastest */",
            f"#define {prefix}_NAME {c_string(array.name)}",
            f'#define {prefix}_DTYPE "{array.dtype.name}"',
            f"#define {prefix}_RANK {len(array.shape)}",
            f"#define {prefix}_ELEMENT_BYTES {array.dtype.itemsize}"
            if interface.sizes
            else f"#define {prefix}_BYTES ((size_t){array.nbytes}) /* bytes{each} */",
            f"#define {prefix}_ALIGNMENT {array.dtype.itemsize}",
        ]
    return "\n".join(lines + _indices(interface, side, arrays))


def _states_text(interface: Interface) -> str:
    """Definitions for the state arrays of a context."""
    macro = interface.name.upper()
    lines = [f"#define {macro}_STATES {len(interface.states)}"] if interface.trains else []
    for number, array in enumerate(interface.states):
        prefix = f"{macro}_STATE{number}"
        sizes = ", ".join(map(str, array.shape)) or "a scalar"
        element = _TYPES.get(array.dtype.name, f"{array.dtype.name}_t")
        lines += [
            f"/* state {number}: [{sizes}] of {element} */",
            f"#define {prefix}_NAME {c_string(array.name)}",
            f'#define {prefix}_DTYPE "{array.dtype.name}"',
            f"#define {prefix}_BYTES ((size_t){array.nbytes})",
        ]
    return "\n".join([*lines, ""]) if lines else ""


def _indices(interface: Interface, side: str, arrays: tuple[Array, ...]) -> list[str]:
    """Definitions of indices by name, for names that are unique as identifiers."""
    names = [identifier(array.name).upper() for array in arrays]
    return [
        f"#define {interface.name.upper()}_{side}_{name} {number}"
        for number, name in enumerate(names)
        if names.count(name) == 1
    ]


def _code_lines(macro: str, interface: Interface) -> list[str]:
    return [f"    {macro}_{name} = {kind}," for kind, name in interface.kind_names.items()]


_BELONGS = {
    False: "A network ready to compute. It belongs to no thread.",
    True: "Weights, states of the optimizer and counts. It belongs to no thread.",
}


_HEADER = """\
/* {name}: {what}, compiled by hybridjit {version} for {targets}.
 *
 * Needs only the C library and libm. Link {name}.o, {name}.a or {name}.so.
 * Functions change only their arguments and their context; there are no global variables.
 */
#ifndef {macro}_H
#define {macro}_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define {macro}_ABI_VERSION {abi}

#define {macro}_INPUTS {input_count}
#define {macro}_OUTPUTS {output_count}
{sizes}
#define {macro}_WORKSPACE_ALIGNMENT {alignment}

{inputs}
{outputs}
{states}
/* Errors: the low byte is the kind. For the kinds that begin with ARRAY the higher bits are the
 * index of the array: inputs first, then outputs{numbered}. */
enum {{
{codes}
}};
#define {macro}_ERROR_KIND(code) ((code) & 255)
#define {macro}_ERROR_ARRAY(code) ((code) >> 8)

/* {belongs} */
typedef struct {name}_context {name}_context;

/* An array of the caller: its address and its size in bytes. */
typedef struct {{
    const void *data;
    size_t bytes;
}} {name}_input;
typedef struct {{
    void *data;
    size_t bytes;
}} {name}_output;

/* {macro}_ABI_VERSION of the linked library: do not use it if it differs from the header's. */
int {name}_abi_version(void);

/* The contents of this header as JSON, for programs that load the library. */
const char *{name}_description(void);

/* The message of an error code; never NULL, not to be freed. */
const char *{name}_error_text(int code);

/* Make a context and return 0; or set NULL and return a code. Any number may exist.
 * weights  {weights}
 * threads  {threads}
 */
int {name}_init({name}_context **context, const char *weights, int threads);

/* The CPU of the context's code: one of {targets}. */
const char *{name}_target(const {name}_context *context);

{calls}/* Free a context that no call uses. NULL is permitted. */
void {name}_free({name}_context *context);

#ifdef __cplusplus
}}
#endif

#endif
"""

_WORKSPACE = """\
/* Size of a workspace for calls with this context, in bytes. */
size_t {name}_workspace_bytes(const {name}_context *context);

"""

_SHAPES = """\
/* The shapes of the outputs and the bytes of a workspace for these sizes. Returns 0; or a code if
 * a size is out of its bounds or the network refuses the sizes.
 * sizes            {macro}_SIZES numbers, at the places {macro}_SIZE_...
 * output_shapes    room for {macro}_OUTPUT_SIZES numbers: the sizes of output 0, then those of
 *                  output 1 and so on; or NULL
 * workspace_bytes  room for a number, or NULL
 */
int {name}_shapes(const {name}_context *context, const int64_t *sizes, int64_t *output_shapes,
    size_t *workspace_bytes);

"""

_SIZED_RUN = """\
/* Compute the outputs and return 0; or return a code. Nothing is written for a code other than
 * {macro}_DATA and {macro}_FORKED.
 * inputs, outputs  {macro}_INPUTS and {macro}_OUTPUTS arrays; outputs must not overlap with others
 * sizes            {macro}_SIZES numbers, as for {name}_shapes: the arrays have these sizes
 * workspace        memory for this call only, aligned to {alignment} bytes, with any contents.
 *                  Calls with different workspaces may run at the same time. NULL selects
 *                  the workspace of the context, which grows to the largest call and serves one
 *                  call at a time; a second one returns {macro}_BUSY.
 */
int {name}_run({name}_context *context, const {name}_input *inputs, const {name}_output *outputs,
    const int64_t *sizes, void *workspace, size_t workspace_bytes);

"""

_RUN = """\
/* Compute the outputs and return 0; or return a code. Nothing is written for a code other than
 * {macro}_DATA and {macro}_FORKED.
 * inputs, outputs  {macro}_INPUTS and {macro}_OUTPUTS arrays; outputs must not overlap with others
 * batch            {batch}
 * workspace        memory for this call only, aligned to {alignment} bytes, with any contents.
 *                  Calls with different workspaces may run at the same time. NULL selects
 *                  the workspace of the context, which serves one call at a time; a second one
 *                  returns {macro}_BUSY.
 */
int {name}_run({name}_context *context, const {name}_input *inputs, const {name}_output *outputs,
    int64_t batch, void *workspace, size_t workspace_bytes);

"""

_STEP = """\
/* Train on one batch: the outputs are its losses before the update of weights and states.
 * Returns 0; or a code. Nothing is written for a code other than {macro}_DATA and
 * {macro}_FORKED. With {macro}_DATA weights and states do not change.
 * inputs, outputs  {macro}_INPUTS and {macro}_OUTPUTS arrays; outputs must not overlap with others
 * learning_rate    a number that is finite in float32; gradients are divided by the batch size
 * workspace        memory for this call only, aligned to {alignment} bytes, with any contents.
 *                  NULL selects the workspace of the context.
 * One call at a time steps, reads or writes a context; others return {macro}_BUSY.
 */
int {name}_step({name}_context *context, const {name}_input *inputs, const {name}_output *outputs,
    double learning_rate, void *workspace, size_t workspace_bytes);

/* Name and bytes of state array number; NULL and 0 if number is not below {macro}_STATES. */
const char *{name}_state_name(size_t number);
size_t {name}_state_bytes(size_t number);

/* Copy a state array out of a context, or into it. Names are the network's for weights and moving
 * statistics; the name of a weight, a colon and the operator's name for states of the optimizer;
 * num_update is the number of steps so far, from 0 to 2**53.
 * name             one of {macro}_STATE0_NAME and the others
 * bytes            size of data, which needs no alignment: equal to the size of the state
 */
int {name}_get({name}_context *context, const char *name, void *data, size_t bytes);
int {name}_set({name}_context *context, const char *name, const void *data, size_t bytes);

"""

_SEED = """\
/* Set the seed of Dropout for the next steps: the same draws as in Python after
 * hybridjit.random.seed(seed). A new context has the seed 0; random_state is the current state.
 */
int {name}_seed({name}_context *context, uint64_t seed);

"""
