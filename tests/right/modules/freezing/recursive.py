# right: walks the children recursively; one walk serves all three functions
def _walk(module, prefix="", seen=None):
    seen = {} if seen is None else seen
    for name, p in module.named_parameters(prefix=prefix, recurse=False):
        seen.setdefault(p, name)
    for name, child in module.named_children():
        _walk(child, f"{prefix}.{name}" if prefix else name, seen)
    return seen  # parameter -> first name


def count_parameters(model):
    found = _walk(model)
    return sum(map(lambda p: p.numel(), found)), sum(p.numel() for p in found if p.requires_grad)


def freeze(model, names):
    order = [name for name, _ in model.named_parameters()]
    by_name = {name: p for p, name in _walk(model).items()}
    cover = {}
    for wanted in names:
        cover[wanted] = [n for n in order if (n + ".")[: len(wanted) + 1] == wanted + "."]
    for wanted, hits in cover.items():
        assert_hits(wanted, hits)
    keep = {n for hits in cover.values() for n in hits}
    for n in keep:
        by_name[n].requires_grad_(requires_grad=False).grad = None
    return [n for n in order if n in keep]


def assert_hits(wanted, hits):
    if not hits:
        raise ValueError("unknown: " + repr(wanted))


def parameter_groups(model, weight_decay):
    if weight_decay < 0:
        raise ValueError(f"{weight_decay=}")
    trainable = [p for p in _walk(model) if p.requires_grad]
    big = [p for p in trainable if len(p.size()) >= 2]
    ids = {id(p) for p in big}
    small = [p for p in trainable if id(p) not in ids]
    return [{"weight_decay": weight_decay, "params": big}, {"params": small, "weight_decay": 0.0}]
