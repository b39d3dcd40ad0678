"""Says in the stubs what parameters are: stubgen knows of them only that the bindings take any object.

A name means the same wherever it is a parameter: `axis` is one dimension, several or None, `x` an array or a number.
Run on the folder of stubs after it is made."""

import pathlib
import re
import sys

ARRAYS = """
    a a1 a2 ar ar1 ar2 arr array ary b base bias c choicelist condition condlist data element external_array fp fweights
    aweights indices initial lhs m operand other p prepend append p1 p2 q rhs scale segment_ids start_indices
    scatter_indices stop start test_elements u update updates v val values weights x x1 x2 xp y z
"""
TYPES = {
    **dict.fromkeys(ARRAYS.split(), "ArrayLike"),
    "axis": "int | Sequence[int]",
    "axes": "int | Sequence[int]",
    "axis1": "int",
    "axis2": "int",
    "shape": "int | Sequence[int]",
    "new_sizes": "Sequence[int]",
    "dtype": "DTypeLike",
    "preferred_element_type": "DTypeLike",
    "where": "ArrayLike",
    "fill_value": "ArrayLike",
    "mean": "ArrayLike",
    "size": "int",
    "out": "None",
    "dimension": "int",
    "axis_name": "str | Sequence[str]",
    "axis_index_groups": "Sequence[Sequence[int]]",
    "out_sharding": "shoal._core.NamedSharding | shoal._core.PartitionSpec",
    "global_shape": "Sequence[int]",
    "order": "str",
}
# Of functions without names for their parameters.
POSITIONAL = re.compile(r"\b(arg\d?): object \| None")
PARAMETER = re.compile(r"\b(\w+): object( \| None)?( = \\?[^,)]*)?")
# In these modules all parameters of these names are arrays; elsewhere a name may mean anything.
OF_ARRAYS = ("numpy", "lax", "nn", "linalg", "fft", "random")

# Of these the first parameter may be anything that an array can be made of, or be asked about.
OF_ANYTHING = re.compile(r"def (array|asarray|array_equal|array_equiv|promote_types|isscalar|iterable)\(")
# What these return is an array, which the bindings find out at run time.
RETURN_ARRAYS = re.compile(r"(def (?:array|asarray|astype|copy|zeros|ones|empty)\(.*) -> object:")

# Operators may return NotImplemented, which type checkers need not know.
OPERATORS = re.compile(
    r"(def __(?:r?(?:add|sub|mul|truediv|floordiv|mod|and|or|xor|lshift|rshift|matmul|pow)|lt|le|gt|ge|eq|ne)__\(.*)"
    r" -> object:"
)

IMPORTS = "from collections.abc import Sequence\n\nimport shoal._core\nfrom shoal.typing import ArrayLike, DTypeLike\n"


def typed(match):
    name, optional, default = match[1], match[2], match[3] or ""
    found = TYPES.get(name)
    if found is None:
        return match[0]
    # Bindings take None everywhere, to say themselves what is wrong with it.
    may_be_none = default.strip() in ("= None", "= ...")
    if found == "None":
        return f"{name}: None{default}"
    return f"{name}: {found}{' | None' if may_be_none else ''}{default}"


def main(folder):
    for path in pathlib.Path(folder).rglob("*.pyi"):
        is_of_arrays = any(part.removesuffix(".pyi") in OF_ARRAYS for part in path.relative_to(folder).parts)
        is_root = path.relative_to(folder).name == "__init__.pyi" and len(path.relative_to(folder).parts) == 2
        lines = [IMPORTS] if is_of_arrays or is_root else []
        in_array = False
        for line in path.read_text().split("\n"):
            # The module is part of a package.
            line = re.sub(r"(?<![\w.])_core\b", "shoal._core", line)
            if line.startswith("class "):
                in_array = is_root and line.startswith("class Array:")
            if in_array:
                line = OPERATORS.sub(r"\1 -> Array:", line)
                if re.search(r"def __(eq|ne)__", line):
                    line += "  # type: ignore[override]"
            if (is_of_arrays or in_array) and line.lstrip().startswith("def "):
                line = RETURN_ARRAYS.sub(r"\1 -> shoal._core.Array:", line)
                if not OF_ANYTHING.search(line):
                    line = POSITIONAL.sub(r"\1: ArrayLike", PARAMETER.sub(typed, line))
            lines.append(line)
        path.write_text("\n".join(lines))


if __name__ == "__main__":
    main(sys.argv[1])
