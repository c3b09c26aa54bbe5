"""Tables that compare with the German-English and the paraphrase report: samples, memory."""

import tracemalloc
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from ...models import Strategy
from ...models.hyperparameters import TranslationPreset
from ...nn import Module, checkpoint_activations
from ...train.data.files import Pair
from ...train.data.pairs import TranslationData
from ...train.optim.loss_scaling import HalfPrecision
from ...train.runs.folder import RunFolder
from ...train.tasks.metrics import ScoredTranslation, best_and_worst, bleu, samples_text
from ...train.tasks.translation import Translator, translation_batches, translation_loss
from ...train.updates import Loss, mean_losses
from .attention import draw_last_layers
from .stated import STATED

#: Table 1 of the German-English report: sentence BLEU of the best and the worst translation of a random batch.
BATCH_SIZE, BATCH_SCORES = 32, STATED["german_english_batch"]
BATCH_COLUMNS = {
    "which": "of a random batch of 32",
    "score": "BLEU:.2f",
    "report": "the report's:.2f",
    "source": "source",
    "reference": "reference",
    "hypothesis": "translation",
}
#: Table 2 of the paraphrase report: the output of its model for each input (with the spelling mistakes).
PARAPHRASES = STATED["paraphrases"]
#: The memory that mixed precision saves according to the report, on a GPU with 6 GB.
SAVED_MEMORY = 0.40
MEMORY_COLUMNS = {
    "precision": "precision",
    "tokens": "tokens:,",
    "kept": "weights, gradients, moments (MB):.1f",
    "forward": "held after the forward pass (MB):.1f",
    "peak": "peak of both passes (MB):.1f",
    "saved": "all, less than fp32:.0%",
    "report": "the report's:.0%",
}


def batch_samples(
    sources: Sequence[str], references: Sequence[str], hypotheses: Sequence[str], seed: int
) -> list[ScoredTranslation]:
    """Return the best and the worst translation (for one pair only the best) of a random batch of 32, by BLEU."""
    chosen = np.random.default_rng(seed).permutation(len(sources))[:BATCH_SIZE]
    source, reference, hypothesis = ([side[i] for i in map(int, chosen)] for side in (sources, references, hypotheses))
    best, worst = best_and_worst(source, reference, hypothesis, k=1)
    return [replace(sample, index=int(chosen[sample.index])) for sample in best + worst]


def batch_rows(samples: Sequence[ScoredTranslation], reported: bool = True) -> list[dict[str, Any]]:
    """Return the rows of Table 1, from the result of `batch_samples`, with the report's scores if `reported`."""
    stated = zip(BATCH_SCORES.items(), samples, strict=False)
    rows = [{"which": which, **vars(sample), "report": score} for (which, score), sample in stated]
    return rows if reported else [{**row, "report": None} for row in rows]


def memory_rows(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of `step_memory`: fp32 comes first, the others have their saving in total memory."""
    whole = [0.75 * row["kept"] + row["peak"] for row in rows]  # gradients are in both
    saved = [None, *(1 - own / whole[0] for own in whole[1:])]
    return [
        {**row, "saved": share, "report": SAVED_MEMORY if row["precision"] == "fp16" else None}
        for row, share in zip(rows, saved, strict=True)
    ]


LONG_SHARE, LONG_MOST = 0.05, 400


def set_long_apart(data: TranslationData) -> tuple[TranslationData, list[Pair]]:
    """Return the data without its longest sentences, and up to 400 of those sentences.

    A sentence is long if its source has more words than those of 95 % of the training pairs. The list begins with
    sentences of the test part; sentences removed from the training part follow.
    """
    limit = int(np.quantile([len(source.split()) for source, _ in data.train], 1 - LONG_SHARE))
    parts: dict[str, Any] = {}
    long: list[Pair] = []
    for name in ("test", "train", "valid"):
        pairs = getattr(data, name)
        short = [pair for pair in pairs if len(pair[0].split()) <= limit]
        parts[name] = short or pairs
        if short and name != "valid":
            long += [pair for pair in pairs if len(pair[0].split()) > limit]
    return replace(data, **parts), long[:LONG_MOST]


def mean_loss(translator: Translator, pairs: Sequence[Pair]) -> float:
    """Compute the cross-entropy of the targets in nats per token, including <eos> and without padding."""
    limit, loss = translator.model.config.max_length, translation_loss(0.0, translator.tokenizer.pad_id)
    read, written = translator.as_read([pair[0] for pair in pairs]), translator.as_written([pair[1] for pair in pairs])
    pairs = list(zip(read, written, strict=True))
    batches = translation_batches(
        pairs, translator.tokenizer, tokens_per_batch=max(2048, limit), max_length=limit, seed=0, shuffle=False
    )
    return mean_losses(translator.model, loss, batches)["loss"]


def figures(
    translator: Translator, test: Sequence[Pair], long: Sequence[Pair], strategy: Strategy
) -> tuple[dict[str, Any], list[str]]:
    """Compute BLEU and loss on the test set and on the longer sentences. Also return the translations of the test."""
    row, translations = dict[str, Any](), dict[str, list[str]]()
    options: dict[str, Any] = {"strategy": strategy, "too_long": "truncate", "progress": True, "split": False}
    for prefix, pairs in (("", test), ("long_", long)):
        if pairs:
            references = translator.as_written([pair[1] for pair in pairs])
            texts = translations[prefix] = translator.translate([pair[0] for pair in pairs], **options)
            row |= {f"{prefix}bleu": bleu(texts, references).value, f"{prefix}loss": mean_loss(translator, pairs)}
    return row, translations.get("", [])


def show_samples(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    outputs: Sequence[str],
    run: RunFolder,
    *,
    titles: tuple[str, str] = ("Best translations", "Worst translations"),
    words: int = 9,
    **options: Any,
) -> tuple[str, list[ScoredTranslation], list[ScoredTranslation]]:
    """Write the best and the worst outputs to the run's samples, and draw the attention for a text of about `words`
    words. Return the samples as text, the best and the worst. `options` are those of `samples_text`.
    """
    best, worst = best_and_worst(sources, references, outputs)
    shown = zip(titles, (best, worst), strict=True)
    samples = "\n\n".join(f"{title}\n\n{samples_text(some, **options)}" for title, some in shown)
    run.write_samples(samples)
    draw_last_layers(translator, min(sources, key=lambda text: abs(len(text.split()) - words)), run)
    return samples, best, worst


def step_memory(model: Module, loss: Loss, batch: Any, precision: Literal["fp32", "fp16"]) -> dict[str, Any]:
    """Measure the megabytes (10^6 bytes) of the arrays in one step of a model on the CPU, without an update.

    Returns three numbers. `kept` counts weights, gradients and Adam's two moments, which are float32 in either
    precision. `forward` counts the arrays that the forward pass keeps for the backward pass; in fp16 it includes the
    half-precision copies of the weights. `peak` is the maximum during both passes, including gradients. tracemalloc, to
    which NumPy reports its arrays, counts the last two. Source: Micikevicius et al. 2018, arXiv 1710.03740, 3.1.
    """

    def step() -> tuple[int, int]:
        model.zero_grad()
        half = HalfPrecision(model) if precision == "fp16" else None
        if half is not None:
            half.cast()
        with nullcontext() if half is None else half.passes():
            value = loss(model, batch)[0]
            forward = tracemalloc.get_traced_memory()[0]
            value.backward()
        return forward, tracemalloc.get_traced_memory()[1]

    model.train()
    try:
        step()  # things that are created once, such as compiled loops, are not part of a step
        model.zero_grad()
        tracemalloc.start()
        forward, peak = step()
    finally:
        tracemalloc.stop()
        model.zero_grad()
        model.eval()
    kept = 4 * sum(parameter.data.nbytes for parameter in model.parameters())
    return {"precision": precision, "kept": kept / 1e6, "forward": forward / 1e6, "peak": peak / 1e6}


def memory_table(translator: Translator, pairs: list[Pair], preset: TranslationPreset) -> list[dict[str, Any]]:
    """Measure the memory of a step on the first batch in fp32, in fp16, and in fp32 with recomputed activations."""
    size = {"tokens_per_batch": preset.tokens_per_batch, "max_length": preset.max_length}
    batch = next(translation_batches(pairs, translator.tokenizer, **size, seed=0).epoch(0))
    loss = translation_loss(preset.label_smoothing, translator.tokenizer.pad_id)
    rows = [step_memory(translator.model, loss, batch, precision) for precision in ("fp32", "fp16")]
    checkpoint_activations(translator.model)
    rows.append(step_memory(translator.model, loss, batch, "fp32") | {"precision": "fp32, --checkpoint-activations"})
    checkpoint_activations(translator.model, False)
    return [{**row, "tokens": batch.source.size + batch.target_input.size} for row in memory_rows(rows)]
