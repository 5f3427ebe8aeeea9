# right: a rotation matrix for each pair, found one by one, in float64
import torch


def rope_angles(positions, dim, base=10000.0):
    if dim % 2 == 1:
        raise ValueError(f"{dim=}")
    columns = [positions.double() * base ** (-2 * i / dim) for i in range(dim // 2)]
    return torch.stack(columns, dim=-1).float()


def apply_rope(x, angles):
    out = torch.empty(x.shape, dtype=torch.float64)
    half = x.shape[-1] // 2
    for i in range(half):
        a = angles[..., i].double()
        matrix = torch.stack([a.cos(), -a.sin(), a.sin(), a.cos()], -1).unflatten(-1, (2, 2))
        pair = x[..., [i, i + half]].double()
        out[..., [i, i + half]] = (matrix @ pair.unsqueeze(-1)).squeeze(-1)
    return out.to(x.dtype)
