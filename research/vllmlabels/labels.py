#!/usr/bin/env python3
"""Prints which labels vLLM's metric families have, from its sources, as CSV.

    labels.py DIR...

Each DIR holds an unpacked source distribution and is named after its release: 0.33.0. The
sources are parsed, never imported. What a family's name or its labels are is computed from
constants; a family of which that cannot be said is left out.

Packages whose constants vLLM's sources name (kvcr) may lie beside the folder vllm.
"""
import ast
import csv
import itertools
import pathlib
import sys

# What the stat logger hands to others as labelnames: PrometheusStatLogger of V1, StatLoggerBase of V0.
BASE = ("model_name", "engine")
BASE_V0 = ("model_name",)

CLASSES = {"Counter": "counter", "Gauge": "gauge", "Histogram": "histogram", "Summary": "summary", "Info": "info"}


class Unknown(Exception):
    """An expression whose value the sources do not say."""


class Module:
    """One file: its tree, and what its names are set to, by function and class."""

    def __init__(self, tree, base):
        self.tree, self.base = tree, base
        self.values = {}  # (scope, name) -> expressions that it is set to
        self.parent = {}
        for node in ast.walk(tree):
            for child in ast.iter_child_nodes(node):
                self.parent[child] = node
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self.bind(target, node.value)
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                self.bind(node.target, node.value)
            elif isinstance(node, (ast.For, ast.comprehension)):
                self.bind_each(node.target, node.iter)

    def scope(self, node):
        """Returns the function or class around a node, None in the module's body."""
        node = self.parent.get(node)
        while node is not None and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            node = self.parent.get(node)
        return node

    def bind(self, target, value):
        name = ast.unparse(target)
        self.values.setdefault((self.scope(target), name), []).append(value)

    def bind_each(self, target, iterated):
        """Binds the variables of a loop to the elements of what it runs over, by position."""
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        for i, t in enumerate(targets):
            position = i if isinstance(target, ast.Tuple) else None
            self.bind(t, Each(iterated, position))


class Each(ast.AST):
    """What a loop's variable is, one after the other."""

    def __init__(self, iterated, position):
        super().__init__()
        self.iterated, self.position = iterated, position


class Release:
    def __init__(self, folder):
        self.modules = []
        self.shared = {}  # names in modules' and classes' bodies: "INFO_LABELS", "MetricName.INFO"
        for path in sorted(folder.rglob("*.py")):
            text = path.read_text(encoding="utf-8", errors="replace")
            if "aioprometheus" not in text and any(t in text for t in ("vllm:", "prometheus", "labelnames", "_METRIC", "LABEL", "Metadata(")):
                m = Module(ast.parse(text), BASE_V0 if path.parts[-2] == "engine" else BASE)
                self.modules.append(m)
                for (scope, name), values in m.values.items():
                    if scope is None:
                        self.shared.setdefault(name, []).extend((m, v) for v in values)
                    elif isinstance(scope, ast.ClassDef):
                        self.shared.setdefault(scope.name + "." + name, []).extend((m, v) for v in values)

    def evaluate(self, module, scope, node, depth=0):
        """Yields every value that an expression can have: strings, or tuples of values."""
        if depth > 12:
            raise Unknown
        again = lambda n: list(self.evaluate(module, scope, n, depth + 1))
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, (ast.List, ast.Tuple)):
            for parts in itertools.product(*(self.spread(again, e) for e in node.elts)):
                yield tuple(itertools.chain.from_iterable(parts))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            for a, b in itertools.product(again(node.left), again(node.right)):
                yield a + b
        elif isinstance(node, ast.JoinedStr):
            parts = [again(v.value if isinstance(v, ast.FormattedValue) else v) for v in node.values]
            for p in itertools.product(*parts):
                yield "".join(p)
        elif isinstance(node, ast.IfExp):
            yield from again(node.body) + again(node.orelse)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("list", "tuple") and len(node.args) == 1:
            yield from again(node.args[0])
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
            yield from self.call(module, node, again)
        elif isinstance(node, Each):
            for whole in again(node.iterated):
                for element in whole:
                    yield element if node.position is None else element[node.position]
        elif isinstance(node, (ast.Name, ast.Attribute)):
            yield from self.lookup(module, scope, ast.unparse(node), depth)
        else:
            raise Unknown

    @staticmethod
    def spread(again, element):
        """Returns what an element of a list adds to it, a tuple for each value."""
        if isinstance(element, ast.Starred):
            return again(element.value)
        return [(v,) for v in again(element)]

    def call(self, module, node, again):
        """Yields what a function of one line returns."""
        for f in module.tree.body:
            if isinstance(f, ast.FunctionDef) and f.name == node.func.id and len(f.args.args) == 1:
                body = [s for s in f.body if isinstance(s, ast.Return)]
                if len(body) == 1 and isinstance(body[0].value, ast.JoinedStr):
                    for value in again(node.args[0]):
                        parts = [p.value if isinstance(p, ast.Constant) else value for p in body[0].value.values]
                        yield "".join(parts)
                    return
        raise Unknown

    def lookup(self, module, scope, name, depth):
        if name == "self._labelnames" or name == "labelnames" and isinstance(scope, ast.FunctionDef) and "labelnames" in [a.arg for a in scope.args.args]:
            yield module.base
            return
        name = name.removeprefix("self.").removeprefix("cls.") if not (scope, name) in module.values else name
        s = scope
        while s is not None:
            if (s, name) in module.values:
                for v in module.values[s, name]:
                    yield from self.evaluate(module, s, v, depth + 1)
                return
            s = module.scope(s)
        found = [(m, v) for m, v in self.shared.get(name, []) if m is module] or self.shared.get(name, [])
        if not found:
            raise Unknown
        for m, v in found:
            yield from self.evaluate(m, None, v, depth + 1)

    def families(self):
        """Returns {family: labels}: a family with several sets of labels has their union."""
        out, unsure = {}, set()
        for m in self.modules:
            for node in ast.walk(m.tree):
                for name, kind, labels, scope in self.made(m, node):
                    try:
                        names = set(self.evaluate(m, scope, name))
                    except Unknown:
                        continue
                    names = {exposed(n, kind) for n in names if isinstance(n, str) and n.startswith("vllm:")}
                    try:
                        found = {label for labels_of in labels(m, scope) for label in labels_of}
                    except Unknown:
                        unsure |= names
                        continue
                    for n in names:
                        out.setdefault(n, set()).update(found)
        return {n: labels for n, labels in out.items() if n not in unsure}

    def labels(self, module, scope, labels, kind):
        """Returns the sets of labels that an argument can be; an info's are those of its value."""
        if kind == "info":
            raise Unknown
        return self.evaluate(module, scope, labels) if labels is not None else [()]

    def made(self, module, node):
        """Yields (name, type, labels, scope) where a node makes a family or describes one."""
        if isinstance(node, ast.Call):
            kind = kind_of(node.func)
            keywords = {k.arg: k.value for k in node.keywords}
            name = keywords.get("name", node.args[0] if node.args else None)
            if kind and name is not None:
                labels = keywords.get("labelnames", node.args[2] if len(node.args) > 2 else None)
                yield name, kind, lambda m, s: self.labels(m, s, labels, kind), module.scope(node)
        pairs = []
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            pairs = [(node.targets[0].slice, node.value)]
        for key, value in pairs:
            kind = described(value)
            if key is not None and kind:
                labels = {k.arg: k.value for k in value.keywords}.get("labelnames")
                yield key, kind, lambda m, s, l=labels: [BASE + tuple(v) for v in self.evaluate(m, s, l)] if l is not None else [BASE], module.scope(node)


def kind_of(function):
    """Returns the type of family that a function makes, "" for other functions."""
    name = ast.unparse(function).rsplit(".", 1)[-1]
    if name in CLASSES:
        return CLASSES[name]
    parts = name.strip("_").split("_")
    return parts[0] if len(parts) == 2 and parts[1] == "cls" and parts[0] in CLASSES.values() else ""


def described(value):
    """Returns the type of family that Offloading…Metadata(…) describes, "" for other values."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        name = value.func.id
        if name.startswith("Offloading") and name.endswith("Metadata"):
            return CLASSES.get(name.removeprefix("Offloading").removesuffix("Metadata"), "")
    return ""


def exposed(name, kind):
    """Returns a family's name as a page has it: counters end with _total, infos with _info."""
    suffix = {"counter": "_total", "info": "_info"}.get(kind, "")
    return name if name.endswith(suffix) else name + suffix


def main():
    folders = sorted((pathlib.Path(d) for d in sys.argv[1:]), key=lambda d: [int(p) for p in d.name.split(".")])
    spans = {}  # family -> [[labels, first, last]]
    for folder in folders:
        for name, labels in Release(folder).families().items():
            labels = ";".join(sorted(labels, key=lambda l: ((BASE + (l,)).index(l), l)))
            of = spans.setdefault(name, [])
            if not of or of[-1][0] != labels:
                of.append([labels, folder.name, folder.name])
            of[-1][2] = folder.name
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["name", "labels", "first", "last"])
    for name in sorted(spans):
        for labels, first, last in spans[name]:
            out.writerow([name, labels, first, last])


if __name__ == "__main__":
    main()
