"""Three public models, each written once and built with PyTorch and with handloom: losses, gradients and weights agree.

Only the modules `nn`, `nn.functional` and the functions on tensors are exchanged. The models are a GPT (Radford et al.
2019, with nanoGPT's layout), the Transformer with the copy task of "The Annotated Transformer" (Vaswani et al. 2017,
arXiv 1706.03762), and LoRA (Hu et al. 2021, arXiv 2106.09685).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from handloom import nn, ops
from handloom.autograd import Tensor
from handloom.nn import functional
from handloom.train import SGD, Adam, AdamW

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch", reason="PyTorch is not installed: no models to compare with")


class Library(NamedTuple):
    nn: Any
    functional: Any
    lib: Any
    tensor: Callable[[Any], Any]


PEER = Library(torch.nn, torch.nn.functional, torch, torch.tensor)
OWN = Library(nn, functional, ops, Tensor)
VOCABULARY, WIDTH, HEADS, LENGTH = 11, 16, 4, 7


# -- a GPT ------------------------------------------------------------------------------------------------------------


def gpt(library: Library, layers: int = 2) -> Any:
    nn, F, lib, _ = library

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.register_buffer("visible", lib.ones(LENGTH, LENGTH).tril().bool())

        def forward(self, x):
            batch, length, width = x.shape
            parts = self.qkv(x).chunk(3, dim=-1)
            q, k, v = (part.view(batch, length, HEADS, width // HEADS).permute(0, 2, 1, 3) for part in parts)
            scores = q @ k.swapaxes(-2, -1) / math.sqrt(width // HEADS)
            scores = scores.masked_fill(~self.visible[:length, :length], float("-inf"))
            heads = scores.softmax(dim=-1) @ v
            return self.out(heads.permute(0, 2, 1, 3).contiguous().view(batch, length, width))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.attention = nn.LayerNorm(WIDTH), Attention()
            self.norm2 = nn.LayerNorm(WIDTH)
            self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm = nn.LayerNorm(WIDTH)
            self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, ids):
            x = self.tokens(ids) + self.positions(lib.arange(ids.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

        def loss(self, ids):
            logits = self(ids[:, :-1])
            return F.cross_entropy(logits.view(-1, VOCABULARY), ids[:, 1:].reshape(-1))

    return GPT()


# -- the Transformer of the copy task ---------------------------------------------------------------------------------


def copy_task(library: Library) -> Any:
    nn, F, lib, tensor = library

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.shift = nn.Parameter(lib.ones(WIDTH)), nn.Parameter(lib.zeros(WIDTH))

        def forward(self, x):
            std = x.std(dim=-1, keepdim=True, correction=1)
            return self.scale * (x - x.mean(dim=-1, keepdim=True)) / (std + 1e-6) + self.shift

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.linears = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(4)])

        def forward(self, query, key, value, mask):
            batch = query.shape[0]
            q, k, v = (
                linear(x).view(batch, -1, HEADS, WIDTH // HEADS).swapaxes(1, 2)
                for linear, x in zip(self.linears, (query, key, value), strict=False)
            )
            scores = (q @ k.swapaxes(-2, -1) / math.sqrt(WIDTH // HEADS)).masked_fill(mask == 0, -1e9)
            return self.linears[3]((scores.softmax(dim=-1) @ v).swapaxes(1, 2).contiguous().view(batch, -1, WIDTH))

    class Layer(nn.Module):
        def __init__(self, attentions):
            super().__init__()
            self.attentions = nn.ModuleList([Attention() for _ in range(attentions)])
            self.inner = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))
            self.norms = nn.ModuleList([Norm() for _ in range(attentions + 1)])

        def forward(self, x, mask, memory=None, memory_mask=None):
            h = self.norms[0](x)
            x = x + self.attentions[0](h, h, h, mask)
            if memory is not None:
                x = x + self.attentions[1](self.norms[1](x), memory, memory, memory_mask)
            return x + self.inner(self.norms[len(self.norms) - 1](x))

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.source, self.target = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(VOCABULARY, WIDTH)
            angle = np.arange(LENGTH)[:, None] * np.exp(np.arange(0, WIDTH, 2) * (-math.log(10000.0) / WIDTH))
            table = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(1, LENGTH, WIDTH)
            self.register_buffer("table", tensor(table))
            self.encoder = nn.ModuleList([Layer(1) for _ in range(2)])
            self.decoder = nn.ModuleList([Layer(2) for _ in range(2)])
            self.norms, self.generator = nn.ModuleList([Norm(), Norm()]), nn.Linear(WIDTH, VOCABULARY)

        def embed(self, table, ids):
            return table(ids) * math.sqrt(WIDTH) + self.table[:, : ids.shape[1]]

        def forward(self, source, target):
            mask = (source != 0).unsqueeze(-2).unsqueeze(1)
            later = lib.ones(target.shape[1], target.shape[1]).triu(1).bool()
            own_mask = (target != 0).unsqueeze(-2).unsqueeze(1) & ~later
            x = self.embed(self.source, source)
            for layer in self.encoder:
                x = layer(x, mask)
            memory, y = self.norms[0](x), self.embed(self.target, target)
            for layer in self.decoder:
                y = layer(y, own_mask, memory, mask)
            return F.log_softmax(self.generator(self.norms[1](y)), dim=-1)

        def loss(self, ids):
            """The divergence from smoothed targets, per token; padding (0) does not count."""
            log_p, wanted = self(ids, ids[:, :-1]).view(-1, VOCABULARY), ids[:, 1:].reshape(-1)
            smooth = 0.1 / (VOCABULARY - 2)
            target = F.one_hot(wanted, VOCABULARY).double() * (0.9 - smooth) + smooth
            target = target * (wanted != 0).double().unsqueeze(1)
            return -(target * log_p).sum() / (wanted != 0).double().sum()

    return Transformer()


# -- LoRA -------------------------------------------------------------------------------------------------------------


def lora(library: Library) -> Any:
    nn, _, lib, _ = library

    class Adapted(nn.Module):
        """base(x) + (alpha / r) B A x with a frozen layer `base`; B is 0 at the start."""

        def __init__(self, base, rank=2, alpha=4.0):
            super().__init__()
            self.base, self.scale = base, alpha / rank
            self.a = nn.Parameter(lib.zeros(rank, base.weight.shape[1]))
            self.b = nn.Parameter(lib.zeros(base.weight.shape[0], rank))
            nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))

        def forward(self, x):
            return self.base(x) + (x @ self.a.T) @ self.b.T * self.scale

    model = gpt(library)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for block in model.blocks:
        block.attention.qkv = Adapted(block.attention.qkv)
        block.attention.out = Adapted(block.attention.out)
    return model


# -- both -------------------------------------------------------------------------------------------------------------


def batches() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    ids = [rng.integers(1, VOCABULARY, (3, LENGTH)) for _ in range(5)]
    for batch in ids:
        batch[:, 0], batch[0, 5:] = 1, 0  # a start token, and padding, which the GPT learns as a token
    return ids


@pytest.mark.parametrize(
    ("build", "optimizer", "options"),
    [
        (gpt, (AdamW, torch.optim.AdamW), {"lr": 1e-2, "weight_decay": 0.1}),
        (copy_task, (Adam, torch.optim.Adam), {"lr": 1e-2, "betas": (0.9, 0.98), "eps": 1e-9}),
        (lora, (SGD, torch.optim.SGD), {"lr": 0.5, "momentum": 0.9}),
    ],
)
def test_a_model_of_one_text_trains_alike_in_both_libraries(build: Any, optimizer: Any, options: Any) -> None:
    own, peer = build(OWN).astype(np.float64), build(PEER).double()
    state = own.state_dict()
    assert set(state) == set(peer.state_dict())
    peer.load_state_dict({name: torch.tensor(np.array(array)) for name, array in state.items()})
    own_steps = optimizer[0]([p for p in own.parameters() if p.requires_grad], **options)
    trained = [p for p in peer.parameters() if p.requires_grad]
    groups = [{"params": [p for p in trained if p.dim() > 1]}, {"params": [p for p in trained if p.dim() < 2]}]
    groups[1]["weight_decay"] = 0.0  # as in nanoGPT, and by default in handloom
    peer_steps = optimizer[1]([group for group in groups if group["params"]], **options)
    losses = []
    for ids in batches() * 2:
        for model, tensor in ((own, Tensor), (peer, torch.tensor)):
            model.zero_grad()
            loss = model.loss(tensor(ids))
            loss.backward()
            losses.append(loss.item())
            if model is peer:
                gradients = {name: p.grad.numpy() for name, p in peer.named_parameters() if p.requires_grad}
                found = {name: p.grad for name, p in own.named_parameters() if p.requires_grad}
                assert set(found) == set(gradients)
                for name, expected in gradients.items():
                    scale = np.abs(expected).max() + 1e-3
                    np.testing.assert_allclose(found[name], expected, rtol=0, atol=1e-12 * scale, err_msg=name)
        own_steps.step()
        peer_steps.step()
    np.testing.assert_allclose(losses[0::2], losses[1::2], rtol=1e-12)
    assert losses[-1] < losses[0]
