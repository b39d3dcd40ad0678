#!/usr/bin/env python3
"""The reference: a page for each function, and the docstrings of the Python package, from the headers' comments.

    tools/reference.py --check            # the lint: each parameter of a public function has its line
    tools/reference.py --shrink           # takes from tools/undocumented.txt what is documented now
    tools/reference.py --docstrings DIR   # writes docs.json, with what Python's functions say, beside the stubs in DIR,
                                          # and says the same in these
    tools/reference.py --pages DIR        # writes the pages; by the Python that has the package, with both signatures
    tools/reference.py --source FILE      # writes the examples in C++ as one program
    tools/reference.py --examples BINARY  # runs it, and compares what the examples print with the headers
    tools/reference.py --fill             # runs the examples in Python, and writes what they print into the headers
    tools/reference.py --self-test

tools/headers.py says how comments are written. What only Python has is said where it is bound, and in
python/parameters.txt, which has a line for each parameter that is none of C++ and means the same in many functions.
"""

import argparse
import ast
import html
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import headers
from headers import ROOT

LIST = ROOT / "tools" / "undocumented.txt"

# ---- From C++ to Python.

# Where the functions of a module of Python are in C++, first to last.
NAMESPACES = {
    "shoal": ["shoal", "shoal::multihost"],
    "shoal.numpy": ["shoal"],
    "shoal.numpy.fft": ["shoal::fft"],
    "shoal.numpy.linalg": ["shoal::linalg", "shoal"],
    "shoal.lax": ["shoal::lax", "shoal::special", "shoal::lax::linalg", "shoal"],
    "shoal.lax.linalg": ["shoal::lax::linalg", "shoal::linalg"],
    "shoal.nn": ["shoal::nn", "shoal"],
    "shoal.nn.initializers": ["shoal::initializers", "shoal::nn::initializers"],
    "shoal.nn.layers": ["shoal::layers", "shoal::nn"],
    "shoal.random": ["shoal::random"],
    "shoal.scipy.special": ["shoal::special", "shoal::nn", "shoal"],
    "shoal.scipy.linalg": ["shoal::linalg", "shoal::lax::linalg"],
    "shoal.scipy.signal": ["shoal::signal"],
    "shoal.scipy.fft": ["shoal::fft"],
    "shoal.scipy.ndimage": ["shoal::ndimage", "shoal"],
    "shoal.scipy.stats": ["shoal"],
    "shoal.image": ["shoal::image"],
    "shoal.ops": ["shoal::ops"],
    "shoal.optimizers": ["shoal::optimizers"],
    "shoal.mixed_precision": ["shoal::mixed_precision"],
    "shoal.data": ["shoal::data"],
    "shoal.linalg": ["shoal::linalg"],
}
PREFIXES = {"shoal.numpy": "jnp", "shoal.lax": "lax", "shoal": "jax"}
DTYPES = {
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32",
    "u64": "uint64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "c64": "complex64",
    "c128": "complex128",
}  # fmt: skip
ERRORS = headers.errors_of_python()


def python_text(text, renamed=None):
    """A text of a header, as it is said in Python."""
    text = re.sub(r"\b(i8|i16|i32|i64|u8|u16|u32|u64|f16|bf16|f32|f64|c64|c128)\b", lambda m: DTYPES[m[1]], text)
    text = re.sub(r"\bnullopt\b|`none`", "None", text)
    text = re.sub(r"\b(" + "|".join(sorted(ERRORS, key=len, reverse=True)) + r")\b", lambda m: ERRORS[m[1]]
                  if m[1] != "Error" else m[1], text)
    text = re.sub(r"\boptions\.(\w+)", r"\1", text)
    text = re.sub(r"\bthrow(n|s?)\b", lambda m: "raised" if m[1] == "n" else f"raise{m[1]}", text)
    text = re.sub(r"(?<=\w)::(?=\w)", ".", text)
    for old, new in (renamed or {}).items():
        if old != new and old in ("x", "y", "z", "q", "re", "im", "f"):
            text = re.sub(rf"(?<![\w`'\"]){old}(?![\w`'\"])", new if len(new) > 1 else f"`{new}`", text)
    return text


def cpp_names_of_python():
    """Names of Python that are other functions of C++: {"lax.div": "divide"}."""
    import check_python_names

    alone, aliases = check_python_names.read_list((ROOT / "tools" / "python_names.txt").read_text(encoding="utf-8"))
    return aliases


class Finder:
    """The functions of C++ that those of Python are."""

    def __init__(self, all_headers):
        self.headers = all_headers
        self.by_name = {}
        for function in all_headers.functions:
            self.by_name.setdefault((function.namespace, function.name), []).append(function)
        self.aliases = cpp_names_of_python()

    def find(self, module, name):
        """The overloads, or nothing."""
        short = {"shoal.numpy.linalg": "linalg", "shoal.scipy.special": "special"}.get(module, module[len("shoal.") :])
        names = [name, f"{name}_"]
        alias = self.aliases.get(f"{short}.{name}")
        if alias:
            names = [alias]
        outer, _, last = module.rpartition(".")
        is_method = last[:1].isupper()
        if is_method:
            names = [f"{last}::{one}" for one in names]
        for namespace in NAMESPACES.get(outer if is_method else module, []):
            for one in names:
                found = self.by_name.get((namespace, one))
                if found and not (is_method and found[0].doc.is_empty()):
                    return found
        # Methods of arrays are functions, too.
        return self.find("shoal.numpy", name) if module == "shoal.Array" else []


def read_parameters():
    """python/parameters.txt: {"dtype": text, "shoal.random.dtype": text}."""
    found = {}
    for line in (ROOT / "python" / "parameters.txt").read_text(encoding="utf-8").splitlines():
        name, colon, text = line.partition(": ")
        if colon and not line.startswith("#"):
            found[name.strip()] = text.strip()
    return found


class Docs:
    """What a function of Python says of itself, from the header where it is one of C++'s."""

    def __init__(self):
        self.headers = headers.read_headers()
        self.finder = Finder(self.headers)
        self.glossary = read_parameters()

    def of(self, module, name, parameters, own=""):
        """The Doc of a function of Python with these names of parameters, whose binding says `own`."""
        overloads = self.finder.find(module, name)
        own_doc = headers.read_comment((own or "").split("\n"))
        if "Args:" in (own or ""):
            return None  # It says everything itself.
        doc = headers.Doc()
        first = next((one for one in overloads if not one.doc.is_empty()), overloads[0] if overloads else None)
        renamed = self.renamed(module, first, parameters) if first else {}
        # What a binding says in more than a sentence is of Python alone.
        if first is not None and first.doc.text and len(headers.sentences(own_doc.text)) < 2:
            doc.text = python_text(first.doc.text, renamed)
        else:
            doc.text = own_doc.text
        doc.throws = [(ERRORS.get(error, error), python_text(when, renamed))
                      for one in overloads[:1] for error, when in (first.doc.throws + one.common.throws)]
        raises = self.glossary.get(f"{module}.{name}.raises")
        if raises:  # Where Python raises another exception than C++.
            doc.throws = [tuple(one.split(" ", 1)) for one in raises.split("; ")]
        doc.throws = list(dict.fromkeys(doc.throws))
        returns = (first.doc.returns or first.common.returns) if first else ""
        result = self.headers.result_of(first) if first else None
        if result is not None and not (first and first.doc.returns):
            returns = "; ".join(f"`{one.name}`: {one.text}" if one.text else f"`{one.name}`" for one in result.members)
        doc.returns = python_text(returns.replace(".;", ";"), renamed)
        doc.examples = list(first.doc.examples) if first else []
        for name_of_parameter in parameters:
            text = self.parameter(module, name, name_of_parameter, overloads, renamed)
            if text:
                doc.params[name_of_parameter] = python_text(text, renamed)
        return doc

    def renamed(self, module, function, parameters):
        """Where a parameter has another name in Python: the array comes first in both."""
        names = [one.name for one in function.parameters if one.name not in ("options", "where")]
        here = list(parameters)
        if module == "shoal.Array":  # What is the first argument in C++.
            return {names[0]: "the array"} if names else {}
        return {c: p for c, p in zip(names, here) if c != p and c not in here and p not in names}

    def parameter(self, module, function, name, overloads, renamed):
        bare = name.lstrip("*")
        originals = [bare, *(c for c, p in renamed.items() if p == bare)]
        specific = self.glossary.get(f"{module}.{function}.{bare}")
        if specific:
            return specific
        for overload in overloads:
            for original in originals:
                if original in overload.doc.params:
                    return overload.doc.params[original]
        for overload in overloads:
            options = self.headers.options_of(overload)
            for member in options.members if options else []:
                if member.name == bare and member.text:
                    return member.text
        for overload in overloads:
            for original in originals:
                if original in overload.common.params:
                    return overload.common.params[original]
        return self.glossary.get(f"{module}.{bare}") or self.glossary.get(bare, "")


def capital(text, names=()):
    """The text with a first letter that is great, unless it begins with a name or a formula."""
    first = re.match(r"[a-z]{2,}(?=[ ,;.]|$)", text)
    return text[:1].upper() + text[1:] if first and first[0] not in {*names, *DTYPES.values(), "bool"} else text


def with_stop(text):
    return text if not text or text[-1] in ".!?:" else text + "."


def wrapped(text, indent, first=None):
    return textwrap.fill(text, 100, initial_indent=first if first is not None else indent, subsequent_indent=indent,
                         break_long_words=False, break_on_hyphens=False)


def docstring(doc, module="", name=""):
    """The text of a docstring, with Args, Returns and Raises, and an example."""
    parts = [wrapped(paragraph, "") for paragraph in doc.text.split("\n\n") if paragraph]
    if doc.params:
        lines = [wrapped(f"{one}: {with_stop(capital(text, doc.params))}", "    ", "  ") for one, text in doc.params.items()]
        parts.append("Args:\n" + "\n".join(lines))
    if doc.returns:
        parts.append("Returns:\n" + wrapped(with_stop(capital(doc.returns)), "  "))
    if doc.throws:
        lines = [wrapped(with_stop(f"{error}: {capital(when) or 'See above'}"), "    ", "  ")
                 for error, when in doc.throws]
        parts.append("Raises:\n" + "\n".join(lines))
    for example in doc.examples:
        if not example.printed:
            continue
        *before, last = example.python or [python_of(one, module) for one in example.cpp]
        lines = [f">>> {one}" for one in before] + [f">>> print({last})"]
        parts.append("\n".join(lines) + "\n" + example.printed.rstrip())
    return "\n\n".join(parts)


# ---- Examples.

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*|\d+(?:\.\d*)?(?:e-?\d+)?f?|\s+|.')
OF_JAX = set("""
    jit grad value_and_grad vmap pmap shard_map device_put device_get make_mesh eval_shape jvp vjp devices device_count
    local_devices local_device_count process_index process_count hessian jacfwd jacrev linearize make_array_from_callback
    make_array_from_single_device_arrays make_array_from_process_local_data reshard set_mesh get_mesh
""".split())
MODULES = {
    "lax": "lax", "linalg": "jnp.linalg", "lax::linalg": "lax.linalg", "fft": "jnp.fft", "nn": "jax.nn",
    "random": "jax.random", "special": "jax.scipy.special", "signal": "jax.scipy.signal", "image": "jax.image",
    "ops": "jax.ops", "optimizers": "jax.optimizers", "initializers": "jax.nn.initializers", "ndimage": "jax.scipy.ndimage",
}  # fmt: skip
WORDS = {"true": "True", "false": "False", "none": "None", "nullopt": "None", "std::nullopt": "None"}


def python_of(code, module=""):
    """An expression or statement of C++, as it is written in Python: {.axis = 0} is axis=0, and {1, 2} a list."""
    tokens = TOKEN.findall(code)
    result, braces = [], []
    i = 0
    while i < len(tokens):
        token = tokens[i]
        after = next((one for one in tokens[i + 1 :] if not one.isspace()), "")
        if token in ("auto", "const") and after and (after[0].isalpha() or after[0] == "_"):
            i += 2  # With the space after it.
            continue
        if token == "{":
            braces.append(after == ".")
            result.append("" if braces[-1] else "[")
        elif token == "}":
            result.append("" if braces.pop() else "]")
        elif token == "." and braces and braces[-1] and re.fullmatch(r"[A-Za-z_]\w*", after) and \
                (not result or not re.search(r"[\w)\]]$", result[-1])):
            name = after
            i += 1
            while tokens[i] != name:
                i += 1
            while tokens[i] != "=":
                i += 1
            i += 1
            while tokens[i].isspace():
                i += 1
            result.append(f"{name}=")
            continue
        elif re.match(r"[A-Za-z_]", token):
            result.append(python_name(token, after, bool(result) and result[-1].endswith(".")))
        elif re.fullmatch(r"\d+\.\d*f|\d+f", token):
            result.append(token[:-1])
        else:
            result.append(token)
        i += 1
    return "".join(result)


def python_name(token, after, is_attribute):
    if is_attribute:
        return token
    if token in WORDS:
        return WORDS[token]
    if "::" in token:
        namespace, _, name = token.rpartition("::")
        return f"{MODULES.get(namespace, namespace.replace('::', '.'))}.{name.rstrip('_')}"
    if token in DTYPES.values():
        return f"jnp.{token}"
    if token == "bool_":
        return "jnp.bool_"
    if after == "(" and token != "P":
        return f"{'jax' if token in OF_JAX else 'jnp'}.{token.rstrip('_')}"
    return token


def examples_of(all_headers):
    """Each example once, with the function that has it."""
    seen, found = set(), []
    for function in all_headers.functions:
        for example in function.doc.examples:
            if id(example) not in seen:
                seen.add(id(example))
                found.append((function, example))
    return found


def names_for_examples():
    """What examples in Python may use."""
    import numpy

    import shoal
    import shoal.numpy
    from shoal import lax

    return {"jax": shoal, "jnp": shoal.numpy, "lax": lax, "P": shoal.P, "np": numpy}


def run_python_example(example):
    import contextlib
    import io

    names = names_for_examples()
    *before, last = example.python or [python_of(one) for one in example.cpp]
    for line in before:
        exec(line, names)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        print(eval(last, names))
    return printed.getvalue()


SOURCE = """\
// Written by tools/reference.py of the examples in the headers.
#include <shoal/shoal.h>

#include <iostream>

using namespace shoal;

namespace {{

{functions}
}}  // namespace

int main() {{
{calls}}}
"""


def cpp_source(found):
    functions, calls = "", ""
    for number, (function, example) in enumerate(found):
        *before, last = example.cpp
        body = "".join(f"  {line};\n" for line in before)
        functions += (f"// {function.header}: {function.name}\nvoid example_{number}() {{\n{body}"
                      f"  std::cout << ({last}) << \"\\n\\x1e\\n\";\n}}\n\n")
        calls += f"  example_{number}();\n"
    return SOURCE.format(functions=functions, calls=calls)


def check_examples(binary):
    found = [one for one in examples_of(headers.read_headers())]
    done = subprocess.run([binary], capture_output=True, text=True)
    printed = done.stdout.split("\n\x1e\n")[:-1]
    complaints = [done.stderr] if done.returncode != 0 else []
    for (function, example), text in zip(found, printed):
        if text.strip("\n") != example.printed.strip("\n"):
            complaints.append(f"{function.header}: the example of {function.name} prints\n{text}\nnot\n{example.printed}")
    if len(printed) != len(found):
        complaints.append(f"{len(printed)} of {len(found)} examples were run")
    return complaints


def fill():
    """Writes below each example what it prints in Python."""
    for path in sorted(headers.INCLUDE.glob("*.h")):
        lines = path.read_text(encoding="utf-8").split("\n")
        result, i = [], 0
        while i < len(lines):
            match = re.match(r"(\s*)/// @example ", lines[i])
            if not match:
                result.append(lines[i])
                i += 1
                continue
            block = []
            while True:
                block.append(lines[i])
                i += 1
                last = [one for one in block if "/// @example " in one][-1]
                is_statement = last.strip().startswith("/// @example auto ")
                if not re.match(r"\s*/// @python " + ("|\\s*/// @example " if is_statement else ""), lines[i]):
                    break
            while re.match(r"\s*///   ", lines[i]):
                i += 1
            example = headers.read_comment([one.strip()[3:] for one in block]).examples[0]
            try:
                printed = run_python_example(example).rstrip("\n")
            except Exception as error:  # noqa: BLE001: what an example raises is told, with its name.
                print(f"{path.name}: {block}: {error!r}", file=sys.stderr)
                printed = "…"
            result += block + [f"{match[1]}///   {one}".rstrip() for one in printed.split("\n")]
        path.write_text("\n".join(result), encoding="utf-8")


# ---- Stubs.


def public_modules():
    """The modules of shoal._core, and the public ones that have what is in them."""
    found = {"": "shoal"}
    for path in sorted((ROOT / "python" / "bindings").rglob("*.cc")):
        found.update(re.findall(r'submodule\(\w+, "([\w.]+)",\s*"([\w.]+)"', path.read_text(encoding="utf-8")))
    return found


def functions_of_stub(tree):
    """(name, parameters, node) of each function, and of each method of a class."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation).endswith("ufunc"):
            yield node.target.id, node
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("__"):
                    yield f"{node.name}.{inner.name}", inner


def parameters_of(node):
    """The names, as help() shows them: those without a name of their own are x, or x1 and x2."""
    if isinstance(node, ast.AnnAssign):  # A ufunc.
        return ["x1", "x2", "out", "where"] if node.target.id != "negative" else ["x", "out", "where"]
    import importlib.util

    spec = importlib.util.spec_from_file_location("_signatures", ROOT / "python" / "shoal" / "_signatures.py")
    signatures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(signatures)
    positional = [one.arg for one in node.args.posonlyargs]
    count = len(positional)
    named = signatures._POSITIONAL.get(node.name) or (("x",) if count == 1 else ("x1", "x2"))
    names = [named[i] if re.fullmatch(r"arg\d*", one) and i < len(named) else one for i, one in enumerate(positional)]
    names += [one.arg for one in node.args.args]
    names += [f"*{node.args.vararg.arg}"] if node.args.vararg else []
    names += [one.arg for one in node.args.kwonlyargs]
    names += [f"**{node.args.kwarg.arg}"] if node.args.kwarg else []
    return [one for one in names if one != "self"]


def write_docstrings(folder):
    """docs.json, and the same in the stubs."""
    docs = Docs()
    table = {}
    for path in sorted(Path(folder).rglob("*.pyi")):
        inner = ".".join(path.relative_to(folder).with_suffix("").parts[1:])
        inner = inner.removesuffix("__init__").rstrip(".")
        module = public_modules().get(inner)
        if module is None:
            continue
        source = path.read_text(encoding="utf-8")
        lines = source.split("\n")
        changes = []
        for qualified, node in functions_of_stub(ast.parse(source)):
            name = qualified.rpartition(".")[2]
            of = f"{module}.{qualified}".rpartition(".")[0]
            own = (ast.get_docstring(node) or "") if isinstance(node, ast.FunctionDef) else ""
            doc = docs.of(of, name, parameters_of(node), own)
            if doc is None:
                continue
            text = docstring(doc, module, name)
            if not text or text == own:
                continue
            table[f"{module}.{qualified}"] = text
            if isinstance(node, ast.FunctionDef):
                changes.append((node, text))
        for node, text in sorted(changes, key=lambda change: -change[0].lineno):
            put_docstring(lines, node, text)
        path.write_text("\n".join(lines), encoding="utf-8")
    (Path(folder) / "docs.json").write_text(json.dumps(table, ensure_ascii=False, indent=0), encoding="utf-8")


def put_docstring(lines, node, text):
    """Replaces the docstring of a function of a stub, or its body of three points."""
    first, last = node.body[0], node.body[0]
    indent = " " * (node.col_offset + 4)
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    made = [f'{indent}"""{escaped.splitlines()[0]}'] + [f"{indent}{one}".rstrip() for one in escaped.splitlines()[1:]]
    made = [*made, f'{indent}"""'] if len(made) > 1 else [made[0] + '"""']
    if first.lineno == node.lineno or lines[first.lineno - 1].lstrip().startswith(("def ", "...")) or \
            not isinstance(first, ast.Expr) or not isinstance(first.value, ast.Constant) or first.value.value is ...:
        # def f(x): ...
        line = lines[last.end_lineno - 1]
        if first.lineno == node.end_lineno and line.rstrip().endswith("..."):
            lines[last.end_lineno - 1] = line.rstrip()[: -len("...")].rstrip()
            lines[last.end_lineno : last.end_lineno] = made
        return
    lines[first.lineno - 1 : first.end_lineno] = made


# ---- The lint.


def undocumented(all_headers):
    """The parameters and members that have no line: "numpy.h: sum.options.axis"."""
    missing, told = [], set()
    of_overloads = {}
    for function in all_headers.functions:
        of_overloads.setdefault((function.namespace, function.name), {}).update(function.doc.params)
    for function in all_headers.functions:
        for parameter in function.parameters:
            if function.name == "shoal_tree":  # A hook, which users define.
                continue
            if parameter.name == "where" and "SourceLocation" in parameter.type or \
                    "source_location" in parameter.type:
                continue
            known = function.common.params | of_overloads[function.namespace, function.name]
            if known.get(parameter.name):
                continue
            if parameter.name == "options":
                struct = all_headers.struct(parameter.type, function.namespace)
                if struct is not None:
                    for member in struct.members:
                        key = f"{struct.header}: {struct.namespace}::{struct.name}.{member.name}"
                        if not member.text and not function.common.params.get(member.name) and key not in told:
                            told.add(key)
                            missing.append(key)
                    continue
            key = f"{function.header}: {function.namespace}::{function.name}({parameter.name})"
            if key not in told:
                told.add(key)
                missing.append(key)
    return missing


def check():
    missing = undocumented(headers.read_headers())
    listed = [line for line in LIST.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    complaints = [f"{one}: has no line; say what it is (tools/headers.py)" for one in missing if one not in set(listed)]
    complaints += [f"tools/undocumented.txt lists {one} without need; it may only shrink (--shrink)"
                   for one in listed if one not in set(missing)]
    return complaints


def shrink():
    missing = set(undocumented(headers.read_headers()))
    lines = LIST.read_text(encoding="utf-8").splitlines()
    LIST.write_text("\n".join(one for one in lines if not one or one.startswith("#") or one in missing) + "\n",
                    encoding="utf-8")


# ---- Pages.

STYLE = """\
body { font: 16px/1.5 sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }
pre { background: #f4f4f4; padding: .6rem; overflow-x: auto; } code { font-size: 95%; }
dt { font-family: monospace; margin-top: .4rem; } input { width: 100%; font-size: 1.1rem; padding: .4rem; }
.from { color: #666; } li { margin: .1rem 0; } a { text-decoration: none; }
"""
PAGE = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{style}</style></head>
<body>{body}</body></html>
"""
SEARCH = """\
<h1>Shoal: reference</h1>
<p>{count} functions. Type a part of a name, or words of what it does.</p>
<input id="words" autofocus placeholder="matmul, shard_map, cumulative sum …"><ul id="found"></ul>
<script>
const all = {entries};
const box = document.getElementById("words"), list = document.getElementById("found");
function score(entry, words) {{
  let sum = 0;
  for (const word of words) {{
    const name = entry[0].toLowerCase(), last = name.split(/[.:]+/).pop();
    if (last === word) sum += 8; else if (last.startsWith(word)) sum += 4; else if (name.includes(word)) sum += 2;
    else if (entry[2].toLowerCase().includes(word)) sum += 1; else return 0;
  }}
  return sum;
}}
function show() {{
  const words = box.value.toLowerCase().split(/\\s+/).filter(Boolean);
  const found = all.map(entry => [score(entry, words), entry]).filter(one => words.length === 0 || one[0] > 0);
  found.sort((a, b) => b[0] - a[0]);
  list.replaceChildren(...found.slice(0, words.length ? 100 : all.length).map(([, entry]) => {{
    const item = document.createElement("li"), link = document.createElement("a");
    link.href = entry[1]; link.textContent = entry[0];
    item.append(link, " ", entry[2]);
    return item;
  }}));
}}
box.addEventListener("input", show);
show();
</script>
"""


def marked(text):
    """Paragraphs as HTML; what is in backticks is code."""
    paragraphs = [re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(one)) for one in text.split("\n\n") if one]
    return "".join(f"<p>{one}</p>" for one in paragraphs)


def inline(text):
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def python_functions():
    """(module, name, signature, docstring) of everything public that the package has, if it is installed."""
    try:
        import shoal
    except ImportError:
        return []
    import importlib
    import inspect
    import pkgutil

    found = {}
    names = ["shoal", *(one.name for one in pkgutil.walk_packages(shoal.__path__, "shoal."))]
    for module_name in sorted(names):
        if any(part.startswith("_") for part in module_name.split(".")):
            continue
        try:
            module = importlib.import_module(module_name)
        except ImportError:
            continue
        for name, value in sorted(vars(module).items()):
            if name.startswith("_") or not callable(value) or inspect.ismodule(value):
                continue
            if not str(getattr(value, "__module__", "shoal")).startswith("shoal"):
                continue
            try:
                whole = inspect.signature(value)
                bare = [one.replace(annotation=inspect.Parameter.empty) for one in whole.parameters.values()]
                signature = str(inspect.Signature(bare))
            except (TypeError, ValueError):
                signature = "(…)"
            found[f"{module_name}.{name}"] = (module_name, name, signature, inspect.getdoc(value) or "")
    return list(found.values())


def file_of(qualified):
    """Names that differ in case alone must not be one file where case does not count."""
    return re.sub(r"[A-Z]", lambda m: "^" + m[0].lower(), qualified.replace("::", ".")) + ".html"


def cpp_part(docs, overloads):
    first = next((one for one in overloads if not one.doc.is_empty()), overloads[0])
    doc = first.doc
    body = "<pre>" + html.escape("\n".join(dict.fromkeys(one.signature for one in overloads))) + "</pre>"
    body += f'<p class="from">shoal/{first.header}, namespace {first.namespace}</p>' + marked(doc.text)
    rows = []
    for parameter in dict.fromkeys(p.name for one in overloads for p in one.parameters):
        text = next((known[parameter] for one in overloads for known in (one.doc.params, one.common.params)
                     if parameter in known), "")
        struct = docs.headers.options_of(first) if parameter == "options" else None
        if struct is not None:
            members = "".join(f"<dt>.{html.escape(one.name)}</dt><dd><code>{html.escape(one.declaration)}</code> "
                              f"{inline(one.text or first.common.params.get(one.name, ''))}</dd>" for one in struct.members)
            text, members = text or f"{struct.name}:", f"<dl>{members}</dl>"
        else:
            members = ""
        if parameter == "where" and not text:
            text = "The line of the program that errors name."
        rows.append(f"<dt>{parameter}</dt><dd>{inline(text)}{members}</dd>")
    if rows:
        body += f"<h3>Parameters</h3><dl>{''.join(rows)}</dl>"
    result = docs.headers.result_of(first)
    returns = doc.returns or ("" if result else first.common.returns)
    if returns or result:
        body += f"<h3>Returns</h3><p>{inline(returns)}</p>"
    if result is not None:
        members = "".join(f"<dt>.{html.escape(one.name)}</dt><dd><code>{html.escape(one.declaration)}</code> "
                          f"{inline(one.text)}</dd>" for one in result.members)
        body += f"<p>{result.name}: {inline(result.doc.text)}</p><dl>{members}</dl>"
    throws = list(dict.fromkeys(doc.throws + first.common.throws))
    if throws:
        rows = "".join(f"<dt>{error}</dt><dd>{inline(capital(when))}</dd>" for error, when in throws)
        body += f"<h3>Throws</h3><dl>{rows}</dl>"
    for example in doc.examples:
        code = "\n".join([f"{one};" for one in example.cpp[:-1]] + [f"std::cout << {example.cpp[-1]};"])
        body += f"<h3>Example</h3><pre>{html.escape(code)}</pre><pre>{html.escape(example.printed)}</pre>"
    return body


def write_pages(folder):
    docs = Docs()
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    pages = {}  # By the title: the parts.
    summaries = {}
    taken = set()
    for module, name, signature, text in python_functions():
        title = f"{module}.{name}"
        part = f"<h2>Python</h2><pre>{html.escape(f'{title}{signature}')}</pre><pre>{html.escape(text)}</pre>"
        overloads = docs.finder.find(module, name)
        if overloads:
            taken.update((one.namespace, one.name) for one in overloads)
            part += "<h2>C++</h2>" + cpp_part(docs, overloads)
        pages[title] = part
        summaries[title] = text.split("\n\n")[0].replace("\n", " ")
    for key, overloads in docs.finder.by_name.items():
        if key in taken:
            continue
        title = f"{key[0]}::{key[1]}"
        pages[title] = "<h2>C++</h2>" + cpp_part(docs, overloads)
        summaries[title] = overloads[0].doc.text.split("\n\n")[0]
    for title, body in pages.items():
        whole = f'<p><a href="index.html">All functions</a></p><h1>{html.escape(title)}</h1>{body}'
        (folder / file_of(title)).write_text(PAGE.format(title=title, style=STYLE, body=whole), encoding="utf-8")
    entries = [[title, file_of(title), summaries[title][:160]] for title in sorted(pages)]
    text = json.dumps(entries, ensure_ascii=False).replace("</", "<\\/")
    index = PAGE.format(title="Shoal: reference", style=STYLE, body=SEARCH.format(count=len(pages), entries=text))
    (folder / "index.html").write_text(index, encoding="utf-8")
    print(f"{len(pages)} pages: {folder / 'index.html'}")


# ---- Tests of itself.

TEST_HEADER = """\
// Things.
//
// @param x An array.
#pragma once

namespace shoal {

struct SumOptions {
  Axes axis = {};         ///< Which dimensions,
                          ///< all by default.
  bool keepdims = false;
};
/// The sum. Throws InvalidArgument if a, and OutOfRange for b.
/// @param y Another
///   array.
/// @return A number.
/// @example auto x = array({1, 2});
/// @example sum(x, {.axis = 0, .keepdims = true})
///   [3]
Array sum(const Operand& x, const Operand& y = {}, const SumOptions& options = {});
inline int bare(int n, SourceLocation where = SourceLocation::current()) { return n; }

namespace detail {
int hidden(int z);
}
class Thing {
 public:
  /// Made of a number.
  explicit Thing(int count) : count_{count} {}
  int twice(int base) const;  ///< Twice it.
  ~Thing();

 private:
  int secret(int n);
  int count_;
};
}  // namespace shoal
"""


def self_test():
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.h").write_text(TEST_HEADER)
        (Path(folder) / "elementwise.def").write_text('SHOAL_UNARY(exp, kFloats, kSame, "e to x.", scalar::exp(x))\n')
        read = headers.read_headers(Path(folder))
    found = [(one.name, [p.name for p in one.parameters]) for one in read.functions]
    assert found == [("sum", ["x", "y", "options"]), ("bare", ["n", "where"]), ("Thing::Thing", ["count"]),
                     ("Thing::twice", ["base"]), ("exp", ["x"])], found
    assert [one.doc.text for one in read.functions[2:4]] == ["Made of a number.", "Twice it."]
    doc = read.functions[0].doc
    assert doc.text == "The sum." and doc.params == {"y": "Another array."} and doc.returns == "A number.", doc
    assert doc.throws == [("InvalidArgument", "if a"), ("OutOfRange", "for b")], doc.throws
    assert [(one.name, one.text) for one in read.structs["shoal::SumOptions"].members] == [
        ("axis", "Which dimensions, all by default."), ("keepdims", "")], read.structs
    assert undocumented(read) == ["a.h: shoal::SumOptions.keepdims", "a.h: shoal::bare(n)",
                                  "a.h: shoal::Thing::Thing(count)", "a.h: shoal::Thing::twice(base)"], undocumented(read)
    assert [python_of(one) for one in doc.examples[0].cpp] == [
        "x = jnp.array([1, 2]);", "jnp.sum(x, axis=0, keepdims=True)"], [python_of(one) for one in doc.examples[0].cpp]
    assert doc.examples[0].printed == "[3]\n"
    assert python_of('lax::cond(x > 0, f, g)') == "lax.cond(x > 0, f, g)"
    assert headers.thrown_by("Throws A and InvalidArgument for b.") == [("InvalidArgument", "for b")]
    assert headers.thrown_by("Throws OutOfRange and TypeMismatch for b.") == [
        ("OutOfRange", "for b"), ("TypeMismatch", "for b")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    for flag in ("--check", "--shrink", "--fill", "--self-test"):
        what.add_argument(flag, action="store_true")
    for flag, value in (("--docstrings", "DIR"), ("--pages", "DIR"), ("--source", "FILE"), ("--examples", "BINARY")):
        what.add_argument(flag, metavar=value)
    given = parser.parse_args()
    complaints = []
    if given.check:
        complaints = check()
    elif given.shrink:
        shrink()
    elif given.fill:
        fill()
    elif given.self_test:
        self_test()
    elif given.docstrings:
        write_docstrings(given.docstrings)
    elif given.pages:
        write_pages(given.pages)
    elif given.source:
        Path(given.source).write_text(cpp_source(examples_of(headers.read_headers())), encoding="utf-8")
    else:
        complaints = check_examples(given.examples)
    if complaints:
        sys.exit("\n".join(complaints))


if __name__ == "__main__":
    main()
