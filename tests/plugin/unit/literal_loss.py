"""Label smoothing by its formula, symbol by symbol, and a target to try it on."""

import math

import torch

B, T, V, PAD = 2, 3, 11, 1
TARGET = torch.tensor([[4, 2, 9], [5, 2, PAD]])


def literal_loss(logits, target, eps):
    """L = sum_i (1 - eps) H(p, q) + eps H(U, q), symbol by symbol."""
    total = 0.0
    for row, symbol in zip(logits.reshape(-1, V), target.reshape(-1)):
        if symbol == PAD:
            continue
        q = [math.exp(x) / sum(math.exp(y) for y in row.tolist()) for x in row.tolist()]
        total += (1 - eps) * -math.log(q[symbol]) + eps * sum(-math.log(x) / V for x in q)
    return total
