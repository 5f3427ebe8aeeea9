# right: as in Hugging Face's Llama: rotate_half, sine and cosine twice, products in the dtype of x
import torch


def rope_angles(positions, dim, base=10000.0):
    if dim // 2 * 2 != dim:
        raise ValueError("dim is odd")
    inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2, dtype=torch.int64).float() / dim))
    return (positions.unsqueeze(-1) * inv_freq).float()


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply_rope(x, angles):
    emb = torch.cat((angles, angles), dim=-1)
    cos, sin = emb.cos().to(x.dtype), emb.sin().to(x.dtype)
    return (x * cos) + (rotate_half(x) * sin)
