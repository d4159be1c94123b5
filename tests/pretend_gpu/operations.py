"""Which operations of torch make the host wait for a GPU, and which of them need a detour on the pretend one."""

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

aten = torch.ops.aten

# a real GPU gives their result to the host, or needs it for the shape of the output
WAITS = {
    aten._local_scalar_dense.default, aten.nonzero.default, aten.equal.default, aten.masked_select.default,
    aten.is_nonzero.default, aten._unique2.default, aten.unique_consecutive.default, aten.unique_dim.default,
    aten.repeat_interleave.Tensor, aten.bincount.default, aten.item.default,
}  # fmt: skip
# take tensors of the CPU beside those of CUDA
_INDEXING = {
    aten.index.Tensor, aten.index_put_.default, aten.index_put.default, aten._index_put_impl_.default,
    aten._unsafe_index.Tensor,
}  # fmt: skip
MIXED = {*_INDEXING, aten.copy_.default, aten._to_copy.default, aten._pack_padded_sequence.default}
MIXED.add(aten._pad_packed_sequence.default)
COPIES_ACROSS = _INDEXING  # they bring the index to the device first
GIVE_NUMBERS = {aten._local_scalar_dense.default, aten.equal.default, aten.is_nonzero.default, aten.item.default}


def detoured_gru(real_gru, pretend):
    """Return torch's GRU for tensors of the class *pretend* too, for which it has no kernel: it takes the CPU's.

    Args:
        real_gru: ``torch._VF.gru``.
        pretend: the class.
    """

    class Detour(torch.autograd.Function):
        @staticmethod
        def forward(ctx, compute, *tensors):
            inputs = [t.elem.detach().requires_grad_(g) for t, g in zip(tensors, ctx.needs_input_grad[1:])]
            with torch.enable_grad():
                outputs = compute(inputs)
            ctx.inputs, ctx.outputs = inputs, outputs
            return tuple(pretend(out.detach()) for out in outputs)

        @staticmethod
        def backward(ctx, *gradients):
            wanted = [t for t in ctx.inputs if t.requires_grad]
            found = iter(torch.autograd.grad(ctx.outputs, wanted, [g.elem for g in gradients]))
            return (None, *(pretend(next(found)) if t.requires_grad else None for t in ctx.inputs))

    def gru(*args):
        leaves, spec = tree_flatten(args)
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, pretend)]
        if not places:
            return real_gru(*args)
        if any(
            isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and i not in places
            for i, leaf in enumerate(leaves)
        ):
            raise RuntimeError("Tensors of two devices meet in a GRU")

        def compute(tensors):
            plain = dict(zip(places, tensors))
            return real_gru(*tree_unflatten([plain.get(i, leaf) for i, leaf in enumerate(leaves)], spec))

        return Detour.apply(compute, *(leaves[i] for i in places))

    return gru
