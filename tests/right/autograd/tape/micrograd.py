# right: as in micrograd: closures add in place to grad, which begins at zeros; sum_to_size
import torch


def unbroadcast(gradient, shape):
    return gradient.sum_to_size(shape)


class Value:
    def __init__(self, data, _children=()):
        self.data = torch.as_tensor(data).double()
        self.grad = torch.zeros_like(self.data)
        self._prev = set(_children)
        self._backward = lambda: None

    def __add__(self, other):
        other = other if isinstance(other, Value) else Value(other)
        out = Value(self.data + other.data, (self, other))

        def _backward():
            self.grad += unbroadcast(out.grad, self.data.shape)
            other.grad += unbroadcast(out.grad, other.data.shape)

        out._backward = _backward
        return out

    def __mul__(self, other):
        other = other if isinstance(other, Value) else Value(other)
        out = Value(self.data * other.data, (self, other))

        def _backward():
            self.grad += unbroadcast(other.data * out.grad, self.data.shape)
            other.grad += unbroadcast(self.data * out.grad, other.data.shape)

        out._backward = _backward
        return out

    def __matmul__(self, other):
        out = Value(self.data @ other.data, (self, other))

        def _backward():
            self.grad += out.grad @ other.data.t()
            other.grad += self.data.t() @ out.grad

        out._backward = _backward
        return out

    def relu(self):
        out = Value(self.data.clamp(min=0), (self,))

        def _backward():
            self.grad += (out.data > 0) * out.grad

        out._backward = _backward
        return out

    def sum(self, dim=None):
        out = Value(self.data.sum() if dim is None else self.data.sum(dim), (self,))

        def _backward():
            self.grad += out.grad if dim is None else out.grad.unsqueeze(dim)

        out._backward = _backward
        return out

    def backward(self, gradient=None):
        topo, visited = [], set()

        def build_topo(v):
            if v not in visited:
                visited.add(v)
                for child in v._prev:
                    build_topo(child)
                topo.append(v)

        build_topo(self)
        self.grad = torch.ones_like(self.data) if gradient is None else gradient
        for v in reversed(topo):
            v._backward()

    def __radd__(self, other):
        return self + other

    def __rmul__(self, other):
        return self * other

    def __sub__(self, other):
        return self + (-1) * other
