"""Saves the translator that a learner trains in chapter 15 as a run, which `ask` and the explorer open."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..models import Seq2SeqConfig, Seq2SeqTransformer
from ..tokenizer import BPETokenizer
from ..tokenizer.added_tokens import AddedToken
from ..tokenizer.byte_alphabet import bytes_to_text
from ..train.runs.checkpoints import save_checkpoint
from ..train.runs.folder import RunFolder
from ..train.tasks.trained import trained_config

TRANSLATOR = "translator"  # the folder in which chapter 15 saves the trained model


def as_translator(
    weights: Mapping[str, np.ndarray], tokens: Sequence[bytes], merges: Iterable[tuple[bytes, bytes]], heads: int
) -> tuple[Seq2SeqTransformer, BPETokenizer]:
    """Return chapter 15's model and its tokenizer as those of handloom.

    Args:
        weights: the arrays by chapter 15's names, such as "encoder0.self.q".
        tokens: the bytes of each token, in the order of ids, which begin with 3: 0 to 2 are <pad>, <bos> and <eos>.
        merges: the bytes of the two tokens of each merge.
    """
    added = [AddedToken(id, content) for id, content in enumerate(("<pad>", "<bos>", "<eos>"))]
    vocab = {bytes_to_text(token): id for id, token in reversed(list(enumerate(tokens, len(added))))}
    pairs = [(bytes_to_text(left), bytes_to_text(right)) for left, right in merges]
    tokenizer = BPETokenizer(vocab | {token.content: token.id for token in added}, pairs, added_tokens=added)
    (size, d), layers = weights["table"].shape, sum(name.endswith(".up") for name in weights) // 2
    options: dict[str, Any] = {"norm_first": True, "max_length": 64, "share_embeddings": True}
    model = Seq2SeqTransformer(Seq2SeqConfig(size, size, d, heads, layers, layers, 4 * d, 0.0, **options))
    state = {name: np.zeros_like(array) for name, array in model.state_dict().items()}  # chapter 15 has no biases
    state |= {f"{side}_embedding.weight": weights["table"] for side in ("source", "target")}
    state["output.weight"] = weights["output"].T
    for side in ("encoder", "decoder"):
        looks = {"self": "self_attn"} | ({"source": "multihead_attn"} if side == "decoder" else {})
        norms = {side: f"{side}.norm"}
        for i in range(layers):
            own, theirs = f"{side}{i}", f"{side}.layers.{i}"
            for look, attention in looks.items():
                parts = [weights[f"{own}.{look}.{kind}"].T for kind in "qkv"]
                state[f"{theirs}.{attention}.in_proj_weight"] = np.concatenate(parts)
                state[f"{theirs}.{attention}.out_proj.weight"] = weights[f"{own}.{look}.o"].T
            state[f"{theirs}.linear1.weight"] = weights[f"{own}.up"].T
            state[f"{theirs}.linear2.weight"] = weights[f"{own}.down"].T
            norms |= {f"{own}.{step}": f"{theirs}.norm{n}" for n, step in enumerate([*looks, "up"], 1)}
        for name, norm in norms.items():
            state |= {f"{norm}.{kind}": weights[f"{name}.{kind}"] for kind in ("weight", "bias")}
    model.load_state_dict(state)
    return model, tokenizer


def save_translator(folder: str, losses: Iterable[float], *parts: Any) -> None:
    """Save the translator `as_translator(*parts)` and the losses of its training as a run. An older run is renamed."""
    model, tokenizer = as_translator(*parts)
    with RunFolder.create(folder, {"program": "c15_together.py", "data": "embedded"}, overwrite=True) as run:
        for step, loss in enumerate(losses, 1):
            run.log({"step": step, "loss": loss})
        tokenizer.save(run.tokenizer_path)
        config = trained_config("translation from de to en", run.tokenizer_path, model.config)
        save_checkpoint(run.path, model.state_dict(), config)
