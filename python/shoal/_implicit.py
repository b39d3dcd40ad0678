"""Functions that are given by what their result satisfies, and their derivatives."""

from shoal import _core
from shoal._core import lax as _lax
from shoal._misuse import misuse


class _Unknown:
    """The tree of arrays that is looked for: functions of trees like it, as functions of lists, and in turn."""

    def __init__(self, name, like):
        import shoal.numpy as jnp

        self.name = name
        leaves, self.tree = _core.tree_flatten(like)
        self.leaves = [jnp.asarray(leaf) for leaf in leaves]
        self.of_aux = None

    def _leaves(self, what, made):
        leaves, own = _core.tree_flatten(made)
        if own != self.tree:
            raise misuse(TypeError, f"{self.name}: what {what} returns must have the structure {self.tree}, got {own}")
        return leaves

    def function(self, what, function):
        return lambda leaves: self._leaves(what, function(self.tree.unflatten(leaves)))

    def solver(self, what, solve):
        """solve(function, tree) as one of lists."""

        def on_lists(function, leaves):
            def on_trees(tree):
                return self.tree.unflatten(function(_core.tree_leaves(tree)))

            return self._leaves(what, solve(on_trees, self.tree.unflatten(leaves)))

        return on_lists

    def solver_with_aux(self, what, solve):
        """The same of a solver that returns a pair, of which the second is passed on."""
        aux = []

        def value(function, tree):
            made = solve(function, tree)
            if not (isinstance(made, (tuple, list)) and len(made) == 2):
                raise misuse(
                    TypeError,
                    f"{self.name}: with has_aux {what} returns a pair of the solution and aux, got {made}",
                )
            aux[:], self.of_aux = _core.tree_flatten(made[1])
            return made[0]

        on_lists = self.solver(what, value)
        return lambda function, leaves: on_lists(function, leaves) + aux

    def result(self, leaves):
        count = len(self.leaves)
        made = self.tree.unflatten(leaves[:count])
        return made if self.of_aux is None else (made, self.of_aux.unflatten(leaves[count:]))


def custom_root(f, initial_guess, solve, tangent_solve, has_aux=False):
    """What solve(f, initial_guess) finds as a root of f, with the derivative that the implicit function theorem gives,
    by all that f uses: tangent_solve(g, y) solves g(x) = y, where g is f linearized at the root. With `has_aux` solve
    returns a pair of the root and of what is passed on.

    Args:
      f: The function whose root is wanted.
      initial_guess: A tree of arrays, near which it is looked for.
      solve: The function (f, initial_guess) that finds it.
      tangent_solve: The function (g, y) that solves g(x) = y for a linear g.
      has_aux: Whether solve returns a pair.
    """
    root = _Unknown("custom_root", initial_guess)
    solver = (root.solver_with_aux if has_aux else root.solver)("solve", solve)
    tangents = root.solver("tangent_solve", tangent_solve)
    return root.result(_lax._custom_root(root.leaves, root.function("f", f), solver, tangents))


def custom_linear_solve(matvec, b, solve, transpose_solve=None, symmetric=False, has_aux=False):
    """The solution x of matvec(x) = b that solve(matvec, b) finds, with derivatives by b and by all that matvec uses,
    which solve such equations again: in reverse by transpose_solve(vecmat, c), which is solve for `symmetric` ones.
    With `has_aux` the solvers return a pair of the solution and of what is passed on.

    Args:
      matvec: The linear function.
      b: The right side: a tree of arrays.
      solve: The function (matvec, b) that finds the solution.
      transpose_solve: The same for the transpose; without it there is no derivative in reverse but through solve.
      symmetric: Whether solve does for the transpose, too.
      has_aux: Whether solvers return a pair.
    """
    x = _Unknown("custom_linear_solve", b)
    solver = (x.solver_with_aux if has_aux else x.solver)("solve", solve)
    if transpose_solve is not None:
        first = (lambda vecmat, c: transpose_solve(vecmat, c)[0]) if has_aux else transpose_solve
        transpose_solve = x.solver("transpose_solve", first)
    function = x.function("matvec", matvec)
    return x.result(_lax._custom_linear_solve(x.leaves, function, solver, transpose_solve, symmetric))
