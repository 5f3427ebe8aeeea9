# right: pyplot for the figure (closed again), model.apply, one flat vector, a legend on the figure
import torch
import torch.nn as nn
import matplotlib.pyplot as plt

SCHEMES = ("xavier_uniform", "kaiming_normal", "ones")

device = "cuda" if torch.cuda.is_available() else "cpu"


def gradient_norm(parameters):
    grads = [p.grad.detach().reshape(-1) for p in parameters if p.grad is not None]
    if len(grads) == 0:
        return 0.0
    return torch.cat(grads).norm(p=2).item()


def initialize(model, scheme):
    if scheme == "xavier_uniform":
        init = nn.init.xavier_uniform_
    elif scheme == "kaiming_normal":
        init = nn.init.kaiming_normal_
    elif scheme == "ones":
        init = nn.init.ones_
    else:
        raise ValueError(f"scheme must be one of {SCHEMES}, got {scheme}")

    def visit(m):
        if isinstance(m, nn.Linear):
            init(m.weight)
            if m.bias is not None:
                m.bias.data.fill_(0.0)

    model.apply(visit)


def train_with_monitor(model, loader, loss_fn, optimizer, epochs):
    if epochs < 1:
        raise ValueError("epochs must be >= 1")
    model.train()
    all_norms = []
    for epoch in range(epochs):
        row = []
        for x, y in loader:
            optimizer.zero_grad()
            out = model(x)
            loss = loss_fn(out, y)
            loss.backward()
            row.append(gradient_norm(model.parameters()))
            optimizer.step()
        print(f"epoch {epoch}: {sum(row) / len(row):.4f}")
        all_norms.append(row)
    return torch.tensor(all_norms, dtype=torch.float64)


def compare_initializations(build_model, loader, loss_fn, lr=0.01, epochs=50, seed=0):
    results = {}
    for scheme in SCHEMES:
        torch.manual_seed(seed)
        model = build_model()
        initialize(model, scheme)
        opt = torch.optim.SGD(model.parameters(), lr)
        results[scheme] = train_with_monitor(model, loader, loss_fn, opt, epochs).mean(1)
    return results


def diagnose(norms):
    first = norms[:5]
    if (~torch.isfinite(first)).any() or (first > 1e3).any():
        return "exploding"
    elif (first < 1e-3).all():
        return "vanishing"
    else:
        return "healthy"


def plot_gradient_norms(histories):
    fig, ax = plt.subplots(figsize=(8, 5))
    for name, h in histories.items():
        ax.semilogy(range(1, len(h) + 1), h.numpy(), label=name)
    ax.axhline(1e3, color="red", linestyle="--", alpha=0.3)
    ax.axhline(1e-3, color="blue", linestyle="--", alpha=0.3)
    ax.set_xlabel("Epoch")
    ax.set_ylabel("Gradient L2 norm")
    ax.set_title("Gradient norms")
    ax.grid(True, which="both", alpha=0.3)
    fig.legend(loc="outside upper right", title="scheme")
    fig.tight_layout()
    plt.close(fig)
    return fig


if __name__ == "__main__":
    data = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(3)]
    h = compare_initializations(lambda: nn.Linear(4, 1), data, nn.MSELoss(), epochs=3)
    plot_gradient_norms(h).savefig("norms.png")
