#!/usr/bin/env python3
"""New mathematics goes into the library, not into the bindings: lists the functions of Python that C++ does not have.

Compares the names that python/bindings/{numpy,lax,nn,scipy,random} bind in modules with the functions that the headers of
include/shoal and the rows of elementwise.def declare. Those of Python alone are in tools/python_names.txt, which may
only shrink: the check fails for one that is missing there and for one that is listed without need. Lines of the form
"numpy.concat = concatenate" there say which function of C++ it is where names differ.

With --shrink, takes from the list what it has without need; with --self-test, checks itself.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "tools" / "python_names.txt"
ROOMS = ["numpy", "lax", "nn", "scipy", "random"]

# Variables that are modules, and the modules that they are where it is not the one of the file.
MODULES = {"m": None, "special": "special", "scipy": "scipy.linalg", "segments": "ops", "linalg": "linalg"}
# The modules of files that bind another one than that of their folder.
FILES = {"numpy/linalg.cc": "linalg", "lax/linalg.cc": "lax.linalg", "scipy/special.cc": "special"}

VARIABLE = r"[&*]?(" + "|".join(MODULES) + r")"
# m.def("name", …, and helpers that take a module before the name: bind_unary(m, "name", …, unary<&f>(m, "name", ….
BOUND = re.compile(r"\b" + VARIABLE + r'(?:\.|->)def\(\s*"(\w+)"'
                   r"|\b(?!class_|c\b)\w+(?:<[^;{}()]*>)?\(\s*" + VARIABLE + r'\s*,\s*(?:[&*]?\w+\s*,\s*)?"(\w+)"(?!_)')
COMMENT = re.compile(r"//[^\n]*")
DECLARED = re.compile(r"\b([A-Za-z]\w*)\s*\(")
ROW = re.compile(r"^SHOAL_\w+\((\w+)", re.MULTILINE)


def bound_names(text, module):
    """The names that a source of the bindings binds in modules, as "module.name"."""
    names = set()
    for match in BOUND.finditer(COMMENT.sub("", text)):
        variable, name = (match[1], match[2]) if match[1] else (match[3], match[4])
        if not name.startswith("_"):
            names.add(f"{MODULES[variable] or module}.{name}")
    return names


def declared_names(headers, rows):
    """The functions that headers declare and the ops that rows of elementwise.def make."""
    names = set(ROW.findall(rows))
    for text in headers:
        names.update(DECLARED.findall(COMMENT.sub("", text)))
    return names


def read_list(text):
    """The names of Python alone, and the names of C++ of others."""
    alone, aliases = set(), {}
    for line in text.splitlines():
        line = line.partition("#")[0].strip()
        name, equals, other = (part.strip() for part in line.partition("="))
        if equals:
            aliases[name] = other
        elif name:
            alone.add(name)
    return alone, aliases


def missing_names(bound, declared):
    """The names that C++ does not have. Those of shoal::random are there for its own module only: gamma is a function
    of shoal.scipy.special, too."""
    return {name for name in bound if name not in declared and name.rpartition(".")[2] not in declared}


def check(bound, declared, alone, aliases):
    """The complaints."""
    lines = []
    missing = missing_names(bound - set(aliases), declared)
    for name in sorted(missing - alone):
        lines.append(f"{name} has no function in include/shoal: new mathematics goes into the library, not into the "
                     "bindings")
    for name in sorted(alone - missing):
        lines.append(f"tools/python_names.txt lists {name} without need; it may only shrink (--shrink)")
    for name, other in sorted(aliases.items()):
        if name not in bound:
            lines.append(f"tools/python_names.txt says which function {name} is, but it is not bound")
        elif other not in declared:
            lines.append(f"tools/python_names.txt says that {name} is {other}, which include/shoal does not declare")
        elif name.rpartition(".")[2] in declared:
            lines.append(f"tools/python_names.txt says that {name} is {other}, but include/shoal has its name")
    return lines


def read_tree(root):
    bound = set()
    for room in ROOMS:
        for path in sorted((root / "python/bindings" / room).glob("*.cc")):
            module = FILES.get(f"{room}/{path.name}", room)
            bound |= bound_names(path.read_text(encoding="utf-8"), module)
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted((root / "include/shoal").glob("*.h"))}
    of_random = declared_names([texts.pop("random.h")], "")
    texts.pop("optimizers.h")  # partition, trace and others are not those of NumPy.
    rows = (root / "include/shoal/elementwise.def").read_text(encoding="utf-8")
    return bound, declared_names(texts.values(), rows) | {f"random.{name}" for name in of_random}


def self_test():
    source = '''
      m.def("sum", &sum);  // m.def("comment", …)
      m.def(
          "_private", f);
      m.def(
          "bartlett", f);
      bind_matrix(m, &scipy, "inv", f);
      unary<&special::i0e>(special, "i0e", f);
      with<Some, other>(m, "concat", g);
      refuse("not_bound", m);
      extras(m, "a"_x);
      nb::class_<At>(m, "At");
      nb::class_<Ufunc> c(m, "ufunc");
      c.def("method", h);
      m.def("gone", h);
    '''
    bound = bound_names(source, "numpy")
    declared = declared_names(["Array sum(const Operand& x);\n// Array bartlett(int n);\nArray inv(x);\n",
                               "Array concatenate(x);\n"], "SHOAL_UNARY(i0e, kFloats)\n")
    alone, aliases = read_list("# Alone\nnumpy.listed\nnumpy.gone  # why\n\nnumpy.concat = concatenate\n"
                               "numpy.sum = total\nnumpy.absent = sum\n")
    found = check(bound, declared, alone, aliases)
    expected = [
        "numpy.bartlett has no function in include/shoal: new mathematics goes into the library, not into the bindings",
        "tools/python_names.txt lists numpy.listed without need; it may only shrink (--shrink)",
        "tools/python_names.txt says which function numpy.absent is, but it is not bound",
        "tools/python_names.txt says that numpy.sum is total, which include/shoal does not declare",
    ]
    if found != expected:
        sys.exit("\n".join(["self test failed; found:", *found, "expected:", *expected]))


def shrink(alone_without_need):
    """Takes names from the list; comments and order stay."""
    lines = LIST.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if line.partition("#")[0].strip() not in alone_without_need]
    LIST.write_text("".join(kept), encoding="utf-8")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    bound, declared = read_tree(ROOT)
    alone, aliases = read_list(LIST.read_text(encoding="utf-8"))
    if sys.argv[1:] == ["--shrink"]:
        missing = missing_names(bound - set(aliases), declared)
        return shrink(alone - missing)
    complaints = check(bound, declared, alone, aliases)
    if complaints:
        sys.exit("\n".join(complaints))


if __name__ == "__main__":
    main()
