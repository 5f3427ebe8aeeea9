# right: as in the first paper, keys in the outer loop; tiles merged by logaddexp; setup_context; q scaled first
import torch


def flash_forward(q, k, v, block, causal):
    q = q * q.shape[-1] ** -0.5
    out = torch.zeros_like(q)
    lse = torch.full(q.shape[:-1], float("-inf"), dtype=q.dtype)
    for j in range(0, k.shape[-2], block):
        kj, vj = k[..., j : j + block, :], v[..., j : j + block, :]
        for i in range(0, q.shape[-2], block):
            if causal and j > i + block - 1:
                continue
            qi = q[..., i : i + block, :]
            s = torch.einsum("...id,...jd->...ij", qi, kj)
            if causal and i == j:
                s = s + torch.full((s.shape[-2], s.shape[-1]), float("-inf")).triu(1).to(s.dtype)
            here = torch.logsumexp(s, dim=-1)
            old = lse[..., i : i + block].clone()
            new = torch.logaddexp(old, here)
            lse[..., i : i + block] = new
            part = torch.softmax(s, dim=-1) @ vj
            out[..., i : i + block, :] *= (old - new).exp().unsqueeze(-1)
            out[..., i : i + block, :] += part * (here - new).exp().unsqueeze(-1)
    return [out, lse]


def flash_backward(grad_output, q, k, v, output, logarithms, block, causal):
    scale = q.shape[-1] ** -0.5
    delta = torch.einsum("...id,...id->...i", grad_output, output)
    dq, dks, dvs = torch.zeros_like(q), [], []
    for j in range(0, k.shape[-2], block):
        kj, vj = k[..., j : j + block, :], v[..., j : j + block, :]
        dkj, dvj = torch.zeros_like(kj), torch.zeros_like(vj)
        for i in range(j // block * block if causal else 0, q.shape[-2], block):
            qi, do = q[..., i : i + block, :], grad_output[..., i : i + block, :]
            p = (scale * qi @ kj.mT - logarithms[..., i : i + block].unsqueeze(-1)).exp()
            if causal:
                p = p.tril(i - j)
            dvj += p.mT @ do
            ds = p * (do @ vj.mT - delta[..., i : i + block, None])
            dq[..., i : i + block, :] += scale * ds @ kj
            dkj += scale * ds.mT @ qi
        dks.append(dkj)
        dvs.append(dvj)
    return dq, torch.cat(dks, -2), torch.cat(dvs, -2)


class FlashAttention(torch.autograd.Function):
    @staticmethod
    def forward(q, k, v, block, causal):
        return flash_forward(q, k, v, block, causal)[0]

    @staticmethod
    def setup_context(ctx, inputs, output):
        q, k, v, ctx.block, ctx.causal = inputs
        _, lse = flash_forward(q, k, v, ctx.block, ctx.causal)
        ctx.save_for_backward(q, k, v, output, lse)

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, output, lse = ctx.saved_tensors
        grads = flash_backward(grad_output, q, k, v, output, lse, ctx.block, ctx.causal)
        return *(g if n else None for g, n in zip(grads, ctx.needs_input_grad)), None, None


def flash_attention(q, k, v, block=64, causal=False):
    return FlashAttention.apply(q, k, v, block, causal)
