"""Trees of containers: flattening to a list of leaves, putting them back, mapping."""

from collections import OrderedDict, defaultdict, deque, namedtuple

NodeDef = namedtuple("NodeDef", "type flatten_fn unflatten_fn flatten_with_keys_fn")
SUPPORTED_NODES = {}


# ---- where a leaf is ----


class _Key:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return type(self) is type(other) and self.value == other.value

    def __hash__(self):
        return hash((type(self), self.value))

    def __repr__(self):
        return f"{type(self).__name__}({self.value!r})"


class SequenceKey(_Key):
    """A place in a list or tuple."""

    idx = property(lambda self: self.value)

    def __str__(self):
        return f"[{self.value!r}]"


class MappingKey(_Key):
    """A key of a dict."""

    key = property(lambda self: self.value)

    def __str__(self):
        return f"[{self.value!r}]"


class GetAttrKey(_Key):
    """The name of an attribute."""

    name = property(lambda self: self.value)

    def __str__(self):
        return f".{self.value}"


def keystr(path) -> str:
    """A path as it is written in Python: "['layers'][0]"."""
    return "".join(map(str, path))


# ---- kinds of nodes ----


def register_pytree_node(
    cls,
    flatten_fn,
    unflatten_fn,
    *,
    flatten_with_keys_fn=None,
    serialized_type_name=None,
    **ignored,
):
    """Makes a class a node: flatten_fn(x) -> (children, context), unflatten_fn(children, context)."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"register_pytree_node: {cls} is registered already")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


_register_pytree_node = register_pytree_node


def _is_namedtuple(x):
    return isinstance(x, tuple) and hasattr(type(x), "_fields")


def _sequence_keys(flatten):
    def with_keys(x):
        children, context = flatten(x)
        return [(SequenceKey(i), c) for i, c in enumerate(children)], context

    return with_keys


def _mapping_keys(x):
    children, context = _flatten_dict(x)
    keys = context[1] if isinstance(x, defaultdict) else context
    return [(MappingKey(k), c) for k, c in zip(keys, children)], context


def _flatten_dict(x):
    keys = list(x)
    return list(x.values()), [x.default_factory, keys] if isinstance(x, defaultdict) else keys


def _field_keys(x):
    return [(GetAttrKey(f), c) for f, c in zip(type(x)._fields, x)], type(x)


def _unflatten_namedtuple(children, context):
    return context(*children) if hasattr(context, "_make") else context(list(children))


def _plain(cls, flatten, unflatten, keys=None):
    register_pytree_node(
        cls, flatten, unflatten, flatten_with_keys_fn=keys or _sequence_keys(flatten)
    )


_plain(tuple, lambda x: (list(x), None), lambda children, _: tuple(children))
_plain(list, lambda x: (x, None), lambda children, _: list(children))
_plain(deque, lambda x: (list(x), x.maxlen), lambda children, maxlen: deque(children, maxlen))
_plain(dict, _flatten_dict, lambda children, keys: dict(zip(keys, children)), _mapping_keys)
_plain(
    OrderedDict,
    _flatten_dict,
    lambda children, keys: OrderedDict(zip(keys, children)),
    _mapping_keys,
)
_plain(
    defaultdict,
    _flatten_dict,
    lambda children, context: defaultdict(context[0], zip(context[1], children)),
    _mapping_keys,
)
_plain(namedtuple, lambda x: (list(x), type(x)), _unflatten_namedtuple, _field_keys)


def _get_node_type(tree):
    return namedtuple if _is_namedtuple(tree) and type(tree) not in SUPPORTED_NODES else type(tree)


def _is_leaf(tree, is_leaf=None) -> bool:
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


def tree_is_leaf(tree, is_leaf=None) -> bool:
    """Is it a leaf: no container that is known?"""
    return _is_leaf(tree, is_leaf)


# ---- the shape of a tree ----


class TreeSpec:
    """A tree without its leaves."""

    __slots__ = ("type", "context", "children_specs", "num_leaves", "num_nodes", "num_children")

    def __init__(self, type, context, children_specs):
        self.type, self.context, self.children_specs = type, context, list(children_specs)
        self.num_children = len(self.children_specs)
        self.num_nodes = 1 + sum(c.num_nodes for c in self.children_specs)
        self.num_leaves = 1 if type is None else sum(c.num_leaves for c in self.children_specs)

    def is_leaf(self):
        return self.type is None

    def children(self):
        return list(self.children_specs)

    def child(self, index):
        return self.children_specs[index]

    def _facts(self):
        return self.type, self.context, self.children_specs

    def __eq__(self, other):
        return self is other or (isinstance(other, TreeSpec) and self._facts() == other._facts())

    def __hash__(self):
        return hash((self.type, repr(self.context), self.num_leaves))

    def __repr__(self):
        if self.is_leaf():
            return "*"
        name = getattr(self.type, "__name__", str(self.type))
        return f"TreeSpec({name}, {self.context}, {self.children_specs})"

    def unflatten(self, leaves):
        return tree_unflatten(leaves, self)

    def flatten_up_to(self, tree):
        """The subtrees of `tree` at the places of this shape's leaves."""
        if self.is_leaf():
            return [tree]
        if _get_node_type(tree) is not self.type:
            raise ValueError(f"tree: node must be {self.type.__name__}, got {type(tree).__name__}")
        if self.type in (dict, OrderedDict):
            if set(tree) != set(self.context):
                raise ValueError(f"tree: keys must be {self.context}, got {list(tree)}")
            children = [tree[key] for key in self.context]
        else:
            children, context = SUPPORTED_NODES[self.type].flatten_fn(tree)
            if context != self.context:
                raise ValueError(f"tree: contexts must match, got {context} for {self.context}")
        if len(children) != self.num_children:
            raise ValueError(
                f"tree: a node must have {self.num_children} children, got {len(children)}"
            )
        found = []
        for spec, child in zip(self.children_specs, children):
            found += spec.flatten_up_to(child)
        return found


class LeafSpec(TreeSpec):
    """The place of a leaf."""

    __slots__ = ()

    def __init__(self):
        super().__init__(None, None, [])


_LEAF = LeafSpec()


def treespec_leaf():
    return _LEAF


# ---- flattening and back ----


def _flatten(tree, leaves, is_leaf):
    if _is_leaf(tree, is_leaf):
        leaves.append(tree)
        return _LEAF
    kind = _get_node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten(c, leaves, is_leaf) for c in children])


def tree_flatten(tree, is_leaf=None):
    """(leaves from left to right, the shape)."""
    leaves = []
    spec = _flatten(tree, leaves, is_leaf)
    return leaves, spec


def tree_leaves(tree, is_leaf=None) -> list:
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree, is_leaf=None):
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree, is_leaf=None):
    return tree_flatten(tree, is_leaf)[1]


def _unflatten(spec, leaves):
    if spec.is_leaf():
        return next(leaves)
    children = [_unflatten(c, leaves) for c in spec.children_specs]
    return SUPPORTED_NODES[spec.type].unflatten_fn(children, spec.context)


def tree_unflatten(leaves, treespec):
    """The tree of a shape with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"tree_unflatten: treespec must be TreeSpec, got {type(treespec).__name__}")
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten: the shape has {treespec.num_leaves} leaves, got {len(leaves)}"
        )
    return _unflatten(treespec, iter(leaves))


def _with_path(tree, path, found, is_leaf):
    if _is_leaf(tree, is_leaf):
        found.append((path, tree))
        return
    definition = SUPPORTED_NODES[_get_node_type(tree)]
    if definition.flatten_with_keys_fn is None:
        children = _sequence_keys(definition.flatten_fn)(tree)[0]
    else:
        children = definition.flatten_with_keys_fn(tree)[0]
    for key, child in children:
        _with_path(child, (*path, key), found, is_leaf)


def tree_flatten_with_path(tree, is_leaf=None):
    """([(path, leaf), ...], the shape)."""
    found = []
    _with_path(tree, (), found, is_leaf)
    return found, tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree, is_leaf=None) -> list:
    return tree_flatten_with_path(tree, is_leaf)[0]


# ---- mapping ----


def tree_map(func, tree, *rests, is_leaf=None):
    """The tree with func(leaf, leaves at the same places of `rests`) for every leaf."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(r) for r in rests]
    return tree_unflatten(list(map(func, leaves, *others)), spec)


def tree_map_(func, tree, *rests, is_leaf=None):
    """tree_map for what func does; returns the tree itself."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for values in zip(leaves, *(spec.flatten_up_to(r) for r in rests)):
        func(*values)
    return tree


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """tree_map with the path as func's first argument."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(r) for r in rests]
    return tree_unflatten([func(p, v, *o) for (p, v), *o in zip(found, *others)], spec)


def map_only(types, /):
    """A decorator: the function applies to instances of these types, others stay."""
    matches = types if callable(types) and not isinstance(types, type) else None

    def decorate(func):
        def apply(x):
            hit = matches(x) if matches else isinstance(x, types)
            return func(x) if hit else x

        return apply

    return decorate


def tree_map_only(types, func, tree, is_leaf=None):
    """tree_map over the leaves of these types."""
    return tree_map(map_only(types)(func), tree, is_leaf=is_leaf)


def tree_map_only_(types, func, tree, is_leaf=None):
    return tree_map_(map_only(types)(func), tree, is_leaf=is_leaf)


def tree_all(pred, tree, is_leaf=None) -> bool:
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None) -> bool:
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(types, pred, tree, is_leaf=None) -> bool:
    return all(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, types))


def tree_any_only(types, pred, tree, is_leaf=None) -> bool:
    return any(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, types))


def _broadcast_to_and_flatten(tree, treespec, is_leaf=None):
    """The leaves of `tree` repeated for a shape that it is the upper part of; None: it is not."""
    if _is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    kind = _get_node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    if treespec.is_leaf() or (kind, context) != (treespec.type, treespec.context):
        return None
    if len(children) != treespec.num_children:
        return None
    found = []
    for child, spec in zip(children, treespec.children_specs):
        part = _broadcast_to_and_flatten(child, spec, is_leaf)
        if part is None:
            return None
        found += part
    return found
