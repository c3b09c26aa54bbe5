"""Attention weights of trained models: pictures, word alignments, and what each head attends to over many texts.

Shares of attention hint at a head's function, but don't explain the model's decisions (Jain and Wallace 2019, arXiv
1902.10186). The kinds of heads are those of Clark et al. 2019, arXiv 1906.04341; the measures are those of section 12
of the news report.
"""

import string
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import regex

from ...train.runs.folder import RunFolder
from ...train.runs.plots import plot_attention, plot_shares
from ...train.tasks.alignment import word_weights
from ...train.tasks.translator import Translator

#: Kinds of attended tokens: first by their position relative to the query, then by their content.
SHARES = {
    "first": "first token",
    "itself": "itself",
    "previous": "previous",
    "next": "next",
    "content": "content words",
    "function": "function words",
    "names": "names",
    "marks": "punctuation, end",
}
HEAD_COLUMNS = {
    "cell": "head",
    **{name: f"{words}:.1%" for name, words in SHARES.items()},
    "entropy": "entropy (nats):.2f",
}
#: The kinds that are reported for the first token.
FIRST_COLUMNS = {name: title for name, title in HEAD_COLUMNS.items() if name not in ("itself", "previous", "next")} | {
    "words": "words looked at most"
}
ALIGNMENT_COLUMNS = {
    "cell": "head",
    "written": "of texts written:.1%",
    "written_words": "words:,d",
    "reference": "of the references:.1%",
    "reference_words": "words:,d",
}
EVEN = "uniform attention"
#: Words that hold sentences together; all others are content words.
_FUNCTION_WORDS = """
a about after again against all also am an and any are as at back be because been before being between both but by
can could did do does doing down during each even every few for from further get gets got had has have having he her
here hers him his how i if in into is isn it its itself just like ll made make makes may me might more most much
must my no nor not now of off on once one only or other our out over own re s same says say said shall she should so
some still such t than that the their them then there these they this those through to too two under until up upon
us ve very was we were what when where which while who whom whose why will with without would you your
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
MIN_OCCURRENCES = 5  # minimum number of occurrences of a listed word
_INSIDE = regex.compile(r"(?<=[\w,;] )\w+")


def kind_of(token: str) -> str:
    """Return "content" (also for an unknown word), "function" or "marks" (punctuation, and tokens such as <eos>)."""
    word = token.strip().casefold()
    if word == "<unk>":
        return "content"
    if (word.startswith("<") and word.endswith(">")) or not any(map(str.isalnum, word)):
        return "marks"
    return "function" if word in FUNCTION_WORDS else "content"


def names_in(texts: Iterable[str]) -> frozenset[str]:
    """Return the words, in lower case, that are capitalised inside sentences nine times in ten, at least twice."""
    counts, capitals = Counter[str](), Counter[str]()
    for text in texts:
        for word in _INSIDE.findall(text):
            counts[word.casefold()] += 1
            capitals[word.casefold()] += word[0].isupper()
    often = (word for word, count in capitals.items() if count >= max(2, 0.9 * counts[word]))
    return frozenset(word for word in often if word not in FUNCTION_WORDS)


def head_rows(
    found: Iterable[tuple[Mapping[str, np.ndarray], Sequence[str]]],
    *,
    first_only: bool = False,
    names: frozenset[str] = frozenset(),
) -> list[dict[str, Any]]:
    """Return a row for each head of self-attention with its mean shares, and a row for uniform attention.

    Args:
        found: for each text, the weights (heads, tokens, tokens) by the name of the layer, and the tokens. The first
            token represents the whole text.
        first_only: count only the first token's attention, from which a classifier computes the class. The rows then
            name the words with the largest shares among those that occur in several texts.
        names: words whose share is also counted separately, see `names_in`.

    Source of "first", "previous", "next" and entropy as measures: Clark et al. 2019, arXiv 1906.04341, section 3.
    """
    sums: dict[str, dict[str, Any]] = defaultdict(lambda: defaultdict(float))
    words: dict[str, list[Any]] = defaultdict(list)  # word -> weights of (layers, heads)
    looks, kinds = 0, set()
    for maps, tokens in found:
        size = len(tokens)
        queries = 1 if first_only else size
        masks = _masks(tokens, queries, names)
        kinds |= {name for name, mask in masks.items() if mask.any()}
        looks += queries
        for name, layer in [*maps.items(), (EVEN, np.full((1, size, size), 1 / size))]:
            weights = layer[:, :queries].astype(np.float64)
            for share, mask in masks.items():
                sums[name][share] += weights[:, mask].sum(axis=1)
            sums[name]["entropy"] -= (weights * np.log(np.maximum(weights, 1e-30))).sum(axis=(1, 2))
        if first_only:
            looked = np.array([layer[:, 0] for layer in maps.values()])  # (layers, heads, tokens)
            for index, token in enumerate(tokens[1:], 1):
                words[token.strip()].append(looked[:, :, index])
    often = {word: np.mean(weights, axis=0) for word, weights in words.items() if len(weights) >= MIN_OCCURRENCES}
    rows = []
    for number, (name, totals) in enumerate(sorted(sums.items(), key=lambda item: item[0] == EVEN)):
        for head in range(len(totals["entropy"])):
            shares = {share: float(totals[share][head]) / looks for share in totals if share in {*kinds, "entropy"}}
            rows.append({"cell": EVEN if name == EVEN else f"{_numbered(name)}, head {head + 1}", **shares})
            if first_only and name != EVEN:
                most = sorted(often, key=lambda word: -often[word][number, head])
                rows[-1]["words"] = ", ".join(most[:6])
    return rows


def _masks(tokens: Sequence[str], queries: int, names: frozenset[str]) -> dict[str, np.ndarray]:
    """Return, for each of `SHARES`, the pairs (query, key) that belong to it."""
    query, key = np.indices((queries, len(tokens)))
    kinds = np.array([kind_of(token) for token in tokens])
    kinds[0] = "first"
    named = np.array([token.strip().casefold() in names for token in tokens])
    where = {"first": key == 0, "itself": key == query, "previous": key == query - 1, "next": key == query + 1}
    of_kind = {kind: kinds == kind for kind in ("content", "function", "marks")} | {"names": named}
    return where | {kind: np.broadcast_to(there, key.shape) for kind, there in of_kind.items()}


def _numbered(name: str) -> str:
    """Write "encoder.layers.0.self_attn" as "layer 1"."""
    return f"layer {int(name.split('.layers.')[1].split('.')[0]) + 1}"


def draw_head_rows(rows: Sequence[Mapping[str, Any]], out_png: str | Path, title: str) -> None:
    """Draw the shares as a picture with a row for each head. Raises InputError if it can't be written."""
    names = [name for name in SHARES if name in rows[0]]
    shares = np.array([[row[name] for name in names] for row in rows])
    plot_shares(shares, [row["cell"] for row in rows], [SHARES[name] for name in names], out_png, title)


def alignment_rows(
    translator: Translator, pairs: Mapping[str, Sequence[tuple[str, str]]], partners: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """Count how often each head of cross-attention attends most to the source of the generated word.

    Args:
        pairs: column of `ALIGNMENT_COLUMNS` -> (source, target).
        partners: the corresponding source word of each target word in lower case; if None, the same word.

    The counted words are the target words whose partner is a content word of the source; only letters are compared. The
    last row says how often uniform attention would be right.
    """
    rows: dict[str, dict[str, Any]] = {}
    for column, texts in pairs.items():
        hits: dict[str, float] = defaultdict(float)
        copied = 0
        for source, target in texts:
            maps, *tokens = translator.attention_maps(source, translator.tokenizer.encode(target))
            for name, weights in maps.items():
                if not name.endswith("multihead_attn"):
                    continue
                heads, sources, targets = word_weights(weights, *tokens)
                wanted = [_letters(word) for word in targets]
                if partners is not None:
                    wanted = [_letters(partners.get(word, "")) for word in wanted]
                right = np.array([[word == _letters(other) for other in sources] for word in wanted], bool)
                counted = [i for i, word in enumerate(wanted) if kind_of(word) == "content"]
                counted = [i for i in counted if right[i].any()]
                if name.endswith(".0.multihead_attn"):
                    copied += len(counted)
                    hits[EVEN] += float(right[counted].mean(axis=1).sum()) if counted else 0.0
                named = {f"head {number}": head for number, head in enumerate(heads, 1)}
                for label, one in (named | {"mean of its heads": heads.mean(axis=0)}).items():
                    hits[f"{_numbered(name)}, {label}"] += sum(bool(right[i, one[i].argmax()]) for i in counted)
        for label in sorted(hits, key=lambda label: label == EVEN):
            row = rows.setdefault(label, {"cell": label})
            row |= {column: hits[label] / copied if copied else None, f"{column}_words": copied}
    return list(rows.values())


def _letters(word: str) -> str:
    return word.strip().strip(string.punctuation + "“”‘’").casefold()


def draw_last_layers(translator: Translator, text: str, run: RunFolder) -> None:
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
    plot_attention(cross.mean(axis=0), written, source, run.picture("attention"), title)
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
