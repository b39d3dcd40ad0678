"""Trees of Python objects."""

import dataclasses
from collections import namedtuple

import pytest

import shoal as jax
from shoal import tree_util

Point = namedtuple("Point", "x y")


def test_leaves_come_in_order_and_dicts_by_key():
    tree = {"b": [1, (2, None)], "a": Point(3, {"k": 4})}
    leaves, treedef = jax.tree.flatten(tree)
    assert leaves == [3, 4, 1, 2]
    assert treedef.unflatten(leaves) == tree
    assert str(treedef) == "PyTreeDef({'a': Point(x=*, y={'k': *}), 'b': [*, (*, None)]})"
    assert treedef.num_leaves == 4


def test_map_with_more_trees():
    assert jax.tree.map(lambda x, y: x + y, {"a": 1, "b": (2,)}, {"a": 10, "b": (20,)}) == {"a": 11, "b": (22,)}
    with pytest.raises(ValueError, match="keys differ|missing"):
        jax.tree.map(lambda x, y: x, {"a": 1}, {"b": 1})
    with pytest.raises(ValueError):
        jax.tree.map(lambda x, y: x, (1, 2), (1, 2, 3))


def test_none_and_is_leaf():
    assert jax.tree.leaves([None, 1]) == [1]
    assert jax.tree.leaves([None, 1], is_leaf=lambda x: x is None) == [None, 1]


def test_paths():
    pairs = tree_util.tree_flatten_with_path({"a": [1, Point(2, 3)]})[0]
    assert [(tree_util.keystr(path), leaf) for path, leaf in pairs] == [
        ("['a'][0]", 1), ("['a'][1].x", 2), ("['a'][1].y", 3),
    ]
    assert tree_util.tree_map_with_path(lambda p, x: (len(p), x), [1, [2]]) == [(1, 1), [(2, 2)]]


def test_registered_classes():
    @tree_util.register_pytree_node_class
    class Pair:
        def __init__(self, a, b, name):
            self.a, self.b, self.name = a, b, name

        def tree_flatten(self):
            return (self.a, self.b), self.name

        @classmethod
        def tree_unflatten(cls, name, children):
            return cls(*children, name)

    doubled = jax.tree.map(lambda x: 2 * x, Pair(1, 2, "p"))
    assert (doubled.a, doubled.b, doubled.name) == (2, 4, "p")
    assert jax.tree.structure(Pair(1, 2, "p")) != jax.tree.structure(Pair(1, 2, "q"))
    with pytest.raises(ValueError, match="Duplicate"):
        tree_util.register_pytree_node_class(Pair)


def test_dataclasses():
    @dataclasses.dataclass
    class Config:
        w: float
        n: int

    tree_util.register_dataclass(Config, data_fields=["w"], meta_fields=["n"])
    assert jax.tree.map(lambda x: x + 1, Config(1.0, 3)) == Config(2.0, 3)
    assert tree_util.tree_flatten_with_path(Config(1.0, 3))[0][0][0] == (tree_util.GetAttrKey("w"),)
    with pytest.raises(ValueError, match="Missing fields"):
        tree_util.register_dataclass(dataclasses.make_dataclass("C", ["a", "b"]), data_fields=["a"], meta_fields=[])


def test_reductions_and_transposition():
    assert jax.tree.reduce(lambda a, b: a + b, {"a": 1, "b": [2, 3]}) == 6
    assert jax.tree.all({"a": True, "b": 1})
    outer, inner = jax.tree.structure([0, 0]), jax.tree.structure({"a": 0, "b": 0})
    assert jax.tree.transpose(outer, inner, [{"a": 1, "b": 2}, {"a": 3, "b": 4}]) == {"a": [1, 3], "b": [2, 4]}
    assert jax.tree.broadcast({"a": 1, "b": 2}, {"a": [0, 0], "b": 0}) == {"a": [1, 1], "b": 2}


def test_structures_are_values():
    a, b = jax.tree.structure({"x": 1}), jax.tree.structure({"x": 2.0})
    assert a == b and hash(a) == hash(b) and len({a, b}) == 1
    with pytest.raises(ValueError, match="leaves"):
        a.unflatten([1, 2])


def test_keys_that_cannot_be_sorted():
    with pytest.raises(ValueError, match="sorted"):
        jax.tree.leaves({1: 2, "a": 3})
