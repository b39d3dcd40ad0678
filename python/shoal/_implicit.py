"""Functions that are given by what their result satisfies, and their derivatives."""

import operator

from shoal import _core
from shoal._custom_rules import closure_convert, custom_jvp, linear_call, linear_transpose
from shoal._derivatives import jvp, linearize


def _arrays(tree):
    import shoal.numpy as jnp

    return _core.tree_map(jnp.asarray, tree)


def _converted(name, function, like):
    """closure_convert of a function that returns a tree like its argument."""
    made = None

    def noted(x):
        nonlocal made
        result = function(x)
        made = _core.tree_structure(result)
        return result

    converted, consts = closure_convert(noted, like)
    if made != _core.tree_structure(like):
        raise TypeError(f"{name} must have the structure {_core.tree_structure(like)}, got {made}")
    return converted, list(consts)


def _change(function, consts, changes):
    """How function(*consts) changes; None if there are no consts."""
    return jvp(function, tuple(consts), tuple(changes))[1] if consts else None


def custom_root(f, initial_guess, solve, tangent_solve, has_aux=False):
    """What solve(f, initial_guess) finds as a root of f, with the derivative that the implicit function theorem gives,
    by all that f uses: tangent_solve(g, y) solves g(x) = y, where g is f linearized at the root. With `has_aux` solve
    returns a pair of the root and of what is passed on."""
    guess = _arrays(initial_guess)
    of_consts, consts = _converted("custom_root: what f returns", f, guess)
    solved, more = closure_convert(lambda x, own: solve(lambda y: of_consts(y, *own), x), guess, consts)

    @custom_jvp
    def run(consts, more, guess):
        return solved(guess, consts, *more)

    @run.defjvp
    def rule(primals, tangents):
        consts, more, guess = primals
        result = run(*primals)
        root = result[0] if has_aux else result
        change = _change(lambda *own: of_consts(root, *own), consts, tangents[0])
        if change is None:
            change = _core.tree_map(lambda x: x * 0, root)
        _, derivative = linearize(lambda x: of_consts(x, *consts), root)
        of_root = _core.tree_map(operator.neg, tangent_solve(derivative, change))
        return result, ((of_root, _core.tree_map(lambda x: x * 0, result[1])) if has_aux else of_root)

    return run(consts, list(more), guess)


def _solve(forward, backward, matrix, own, other, b, has_aux):
    """The solution of a linear equation, where `forward` has the function of the equation, of the solution and
    `matrix`, and what solves it, of the right side, `matrix` and `own`; `backward` the same of its transpose, with
    `other`, or is None."""
    function, solve = forward

    def solution(result):
        return result[0] if has_aux else result

    @custom_jvp
    def run(matrix, own, other, b):
        return solve(b, matrix, *own)

    @run.defjvp
    def rule(primals, tangents):
        matrix, own, other, b = primals
        result = run(*primals)
        x = solution(result)
        right = tangents[3]
        change = _change(lambda *one: function(x, *one), matrix, tangents[0])
        if change is not None:
            right = _core.tree_map(operator.sub, right, change)
        if backward is None:
            of_result = solution(solve(right, matrix, *own))
        else:
            of_result = linear_call(
                lambda kept, y: solution(_solve(forward, backward, *kept, y, has_aux)),
                lambda kept, c: solution(_solve(backward, forward, kept[0], kept[2], kept[1], c, has_aux)),
                (matrix, own, other),
                right,
            )
        return result, ((of_result, _core.tree_map(lambda one: one * 0, result[1])) if has_aux else of_result)

    return run(matrix, own, other, b)


def custom_linear_solve(matvec, b, solve, transpose_solve=None, symmetric=False, has_aux=False):
    """The solution x of matvec(x) = b that solve(matvec, b) finds, with derivatives by b and by all that matvec uses,
    which solve such equations again: in reverse by transpose_solve(vecmat, c), which is solve for `symmetric` ones.
    With `has_aux` the solvers return a pair of the solution and of what is passed on."""
    if transpose_solve is None and symmetric:
        transpose_solve = solve
    b = _arrays(b)
    function, matrix = _converted("custom_linear_solve: what matvec returns", matvec, b)
    solved, own = closure_convert(lambda y, one: solve(lambda x: function(x, *one), y), b, matrix)
    if transpose_solve is None:
        return _solve((function, solved), None, matrix, list(own), [], b, has_aux)

    def transposed(x, *one):
        return linear_transpose(lambda y: function(y, *one), b)(x)[0]

    vecmat = function if symmetric else transposed
    back, other = closure_convert(lambda y, one: transpose_solve(lambda x: vecmat(x, *one), y), b, matrix)
    return _solve((function, solved), (vecmat, back), matrix, list(own), list(other), b, has_aux)
