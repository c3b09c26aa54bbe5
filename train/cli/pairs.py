"""Shared code of the examples on pairs of texts: use a trained model, and draw its attention."""

from __future__ import annotations

from typing import Any

from ..runs.folder import RunFolder
from ..runs.plots import plot_attention
from ..tasks.translator import Translator
from .generation import check_lengths, show_translations, strategy_of


def use_checkpoint(arguments: Any, *tasks: str) -> None:
    """Print the best output of the model of --checkpoint for each text, or several outputs with --nbest.

    Raises InputError if the model was not trained for one of `tasks`.
    """
    translator = Translator.load(arguments.checkpoint, tasks)
    check_lengths(strategy_of(arguments), translator.model.config.max_length)
    show_translations(translator, arguments, arguments.texts, arguments.what)


def draw_attention(translator: Translator, text: str, run: RunFolder) -> None:
    """Draw pictures of the attention in the last encoder layer and the last decoder layer.

    attention.png shows the cross-attention, averaged over heads. Other pictures show each head of the encoder's
    self-attention, the decoder's self-attention and the cross-attention. For a copying model, copied.png shows which
    source tokens were copied.
    """
    maps, source, written = translator.attention_maps(text)
    config = translator.model.config
    encoder = f"encoder.layers.{config.encoder_layers - 1}.self_attn"
    decoder = f"decoder.layers.{config.decoder_layers - 1}"
    cross = maps[f"{decoder}.multihead_attn"]
    title = f"Cross-attention, last layer ({decoder}), mean of its {len(cross)} heads"
    plot_attention(cross.mean(axis=0), written, source, run.attention_picture, title)
    read = ["<bos>", *written[:-1]]
    for name, weights, queries, keys, what in (
        ("encoder_heads", maps[encoder], source, source, "encoder self-attention"),
        ("decoder_heads", maps[f"{decoder}.self_attn"], read, read, "decoder self-attention"),
        ("cross_heads", cross, written, source, "cross-attention"),
    ):
        plot_attention(weights, queries, keys, run.picture(name), f"Last layer, {what}")
    if config.copy:
        shares, source, written = translator.copied(text)
        total = shares.sum(axis=1)
        written = [f"{share:.0%}|{token}" for token, share in zip(written, total, strict=True)]
        title, shades = "Copied tokens and their sources", "probability of having been copied"
        plot_attention(shares, written, source, run.picture("copied"), title, shades=shades)
