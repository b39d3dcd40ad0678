"""The signatures of functions of C++, for inspect, functools and editors."""

import ast
import inspect
import re


# The positional parameters of functions that do not call them x, or x1 and x2.
_POSITIONAL = {
    "clip": ("arr",),
    "concat": ("arrays",),
    "frompyfunc": ("func",),
    "imag": ("val",),
    "permute_dims": ("a",),
    "real": ("val",),
    "top_k": ("a", "k"),
    "where": ("condition",),
}


def signature(function):
    """From the text that nanobind has: def name(x: Array, axis: int | None = \\0) -> Array, and the values of \\0."""
    text, _, defaults = function.__nb_signature__[0]
    tree = ast.parse(re.sub(r"\\(\d+)", r"_\1", text) + ": pass").body[0]
    given = tree.args
    kinds = [
        (given.posonlyargs, inspect.Parameter.POSITIONAL_ONLY),
        (given.args, inspect.Parameter.POSITIONAL_OR_KEYWORD),
        ([given.vararg] if given.vararg else [], inspect.Parameter.VAR_POSITIONAL),
        (given.kwonlyargs, inspect.Parameter.KEYWORD_ONLY),
        ([given.kwarg] if given.kwarg else [], inspect.Parameter.VAR_KEYWORD),
    ]
    positional = [argument.arg for argument in given.posonlyargs + given.args]
    values = dict(zip(positional[len(positional) - len(given.defaults) :], given.defaults))
    values.update((argument.arg, value) for argument, value in zip(given.kwonlyargs, given.kw_defaults))

    def default(name):
        value = values.get(name)
        if value is None:
            return inspect.Parameter.empty
        if isinstance(value, ast.Name) and re.fullmatch(r"_\d+", value.id):
            return defaults[int(value.id[1:])]
        return ast.literal_eval(value)

    def annotation(argument):
        return inspect.Parameter.empty if argument.annotation is None else ast.unparse(argument.annotation)

    positions = [argument.arg for argument in given.posonlyargs]

    def name(argument):
        """Positional ones have none of their own."""
        if argument.arg not in positions or not re.fullmatch(r"arg\d*", argument.arg):
            return argument.arg
        named = _POSITIONAL.get(tree.name)
        if named is None:
            named = ("x",) if len(positions) == 1 else ("x1", "x2")
        place = positions.index(argument.arg)
        return named[place] if place < len(named) else argument.arg

    parameters = [
        inspect.Parameter(name(argument), kind, default=default(argument.arg), annotation=annotation(argument))
        for arguments, kind in kinds
        for argument in arguments
    ]
    returns = inspect.Signature.empty if tree.returns is None else ast.unparse(tree.returns)
    return inspect.Signature(parameters, return_annotation=returns)


def signature_of_bound(function):
    """That of a method without the object it is of."""
    whole = signature(function)
    return whole.replace(parameters=list(whole.parameters.values())[1:])
