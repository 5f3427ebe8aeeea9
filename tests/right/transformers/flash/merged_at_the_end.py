# right: no running sums: a maximum, a sum and an output for each tile, all merged at the end; masks by where
import torch


def tiles(q, k, block, causal):
    for rows in torch.arange(q.size(-2)).split(block):
        for cols in torch.arange(k.size(-2)).split(block):
            if causal and cols[0] > rows[-1]:
                break
            s = torch.matmul(q[..., rows, :], k[..., cols, :].transpose(-1, -2)) / q.size(-1) ** 0.5
            if causal:
                s = torch.where(rows[:, None] >= cols, s, torch.finfo(s.dtype).min)
            yield rows, cols, s


def flash_forward(q, k, v, block, causal):
    state = {}
    for rows, cols, s in tiles(q, k, block, causal):
        m = s.max(-1, keepdim=True).values
        p = (s - m).exp()
        state.setdefault(int(rows[0]), []).append((m, p.sum(-1, keepdim=True), p @ v[..., cols, :]))
    outputs, logs = [], []
    for parts in state.values():
        m, total, out = (torch.stack(part) for part in zip(*parts))
        top = m.amax(0)
        total, out = ((m - top).exp() * total).sum(0), ((m - top).exp() * out).sum(0)
        outputs.append(out / total)
        logs.append((top + total.log())[..., 0])
    return torch.cat(outputs, -2), torch.cat(logs, -1)


def flash_backward(grad_output, q, k, v, output, logarithms, block, causal):
    grad_q, grad_k, grad_v = q * 0, k * 0, v * 0
    for rows, cols, s in tiles(q, k, block, causal):
        p = torch.exp(s - logarithms[..., rows].unsqueeze(-1))
        d_out = grad_output[..., rows, :]
        d = (d_out * output[..., rows, :]).sum(-1).unsqueeze(-1)
        d_s = (d_out @ v[..., cols, :].transpose(-1, -2) - d) * p / q.size(-1) ** 0.5
        grad_q.index_add_(-2, rows, d_s @ k[..., cols, :])
        grad_k.index_add_(-2, cols, d_s.transpose(-1, -2) @ q[..., rows, :])
        grad_v.index_add_(-2, cols, p.transpose(-1, -2) @ d_out)
    return grad_q, grad_k, grad_v


class FlashAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, block, causal):
        out, ctx.logs = flash_forward(q, k, v, block, causal)
        ctx.options = block, causal
        ctx.save_for_backward(q, k, v, out)
        return out

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, out = ctx.saved_tensors
        grads = flash_backward(grad_output, q, k, v, out, ctx.logs, *ctx.options)
        return (*grads, None, None)


def flash_attention(q, k, v, block=64, causal=False):
    return FlashAttention.apply(q, k, v, block, causal)
