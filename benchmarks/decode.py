"""Compare generation with Hugging Face's Marian model and with CTranslate2: the same weights and threads, in one run.

    python -m benchmarks.decode --json benchmarks/results/decode.json
    python -m benchmarks.decode --engines transformers ctranslate2 ctranslate2-int8

Greedy search and beam search (width 4) are measured in float32, with batches of 1 and 32 sentences, 24 source tokens
and 64 new tokens. Two models are measured: d_model 512, 6 + 6 layers, vocabulary 50,000; and d_model 256, 3 + 3 layers,
vocabulary 30,000. They have 64 features per head and d_ff = 4 d_model. The other engines load the model that
`handloom.models.pretrained` exports. Each engine runs in its own process; their runs are interleaved, and environment
variables that select BLAS kernels are unset. The ratios compare median times. All engines must generate the same
ids, except ctranslate2-int8, whose weights are rounded to 8 bits.
"""

import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from benchmarks.side_by_side import Worker, conditions, interleaved, program, started, write_results
from handloom.autograd.quick import libraries
from handloom.cli.command_line import run_main
from handloom.train.cells import markdown_table

SIZES = {
    "d_model 256, 3+3 layers, vocabulary 30,000": {"d_model": 256, "layers": 3, "vocabulary": 30_000},
    "d_model 512, 6+6 layers, vocabulary 50,000": {"d_model": 512, "layers": 6, "vocabulary": 50_000},
}
SOURCE, NEW = 24, 64  # tokens
BOS, EOS = 2, 3
Ids = list[list[int]]
Size = dict[str, Any]


def build(size: Size) -> Any:
    """Build a model that generates varied sequences although it is not trained."""
    from handloom.autograd import manual_seed
    from handloom.models import Seq2SeqConfig, Seq2SeqTransformer

    manual_seed(0)
    config = Seq2SeqConfig(
        size["vocabulary"], size["vocabulary"], d_model=size["d_model"], nhead=size["d_model"] // 64,
        encoder_layers=size["layers"], decoder_layers=size["layers"], dim_feedforward=4 * size["d_model"],
        max_length=size["positions"], share_embeddings=True, tie_output=True, sinusoid_halves=True,
    )  # fmt: skip
    model = Seq2SeqTransformer(config).eval()
    # An untrained model with tied embeddings would repeat one token, because each token predicts itself. Larger
    # feed-forward weights, and random signs before the output layer, lead to varied sequences.
    for layer in model.decoder.layers:
        layer.linear2.weight.data *= 4
        layer.multihead_attn.out_proj.weight.data /= 2
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size["d_model"])
    layer.norm3.weight.data *= signs.astype(np.float32)
    return model


class Engine:
    """The base class of a worker. A subclass defines `generate`, which returns NEW ids for each row of a source (batch,
    length)."""

    def __init__(self, size: Size, threads: int):
        self.size, self.threads = size, threads

    def source(self, batch: int) -> np.ndarray:
        """Return random ids (batch, SOURCE) that end with <eos>."""
        source = np.random.default_rng(1).integers(4, self.size["vocabulary"], (batch, SOURCE))
        source[:, -1] = EOS
        return source

    def run(self, batch: int, beam: int) -> tuple[float, Ids]:
        """Generate once, and return the seconds and the ids."""
        source = self.source(batch)
        start = time.perf_counter()
        ids = self.generate(source, beam)
        return time.perf_counter() - start, ids

    def generate(self, source: np.ndarray, beam: int) -> Ids:
        raise NotImplementedError


class Handloom(Engine):
    def __init__(self, size: Size, threads: int):
        super().__init__(size, threads)
        self.model = build(size)
        self.decoder = self.model.raw_decoder()

    def generate(self, source: np.ndarray, beam: int) -> Ids:
        from handloom.models import Rules, beam_search, greedy_search

        rules = Rules(BOS, EOS, min_length=NEW, max_length=NEW)
        state = self.model.start(source, decoder=self.decoder)
        if beam == 1:
            return [hypothesis.ids for hypothesis in greedy_search(state, rules, scores=False)]
        options: Any = {"alpha": 1.0, "length_norm": "power", "early_stopping": True}  # as the other engines
        return [best[0].ids for best in beam_search(state, rules, width=beam, **options)]


class Transformers(Engine):
    """Hugging Face's Marian model, or Pegasus for pre-norm, as handloom exports it."""

    def __init__(self, size: Size, threads: int):
        import torch
        import transformers

        from handloom.models import pretrained

        super().__init__(size, threads)
        torch.set_num_threads(threads)
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        self.torch = torch
        with tempfile.TemporaryDirectory() as folder:
            pretrained.save(build(size), None, folder)
            self.model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()

    def generate(self, source: np.ndarray, beam: int) -> Ids:
        ids = self.torch.from_numpy(source)
        with self.torch.inference_mode():
            out = self.model.generate(
                ids, attention_mask=self.torch.ones_like(ids), num_beams=beam, do_sample=False, min_new_tokens=NEW,
                max_new_tokens=NEW, decoder_start_token_id=BOS, eos_token_id=EOS, forced_eos_token_id=None,
                early_stopping=beam > 1,
            )  # fmt: skip
        return [[token for token in row if token != EOS] for row in out[:, 1:].tolist()]


class CTranslate2(Engine):
    """The C++ engine CTranslate2, with the model of `Transformers`; `kind` is the weights' type, float32 or int8."""

    def __init__(self, size: Size, threads: int, kind: str):
        import ctranslate2
        from ctranslate2.converters.transformers import BartLoader  # the loader for Marian would omit <pad>

        super().__init__(size, threads)
        model = Transformers(size, threads).model
        model.config.normalize_before, model.config.normalize_embedding = model.config.model_type == "pegasus", False
        spec = BartLoader().get_model_spec(model)
        self.names = ["<pad>", "<unk>", "<s>", "</s>", *(str(i) for i in range(4, model.config.vocab_size))]
        self.ids = {name: i for i, name in enumerate(self.names)}
        spec.register_source_vocabulary(self.names)
        spec.register_target_vocabulary(self.names)
        with tempfile.TemporaryDirectory() as folder:
            spec.validate()
            spec.optimize(quantization=None)
            spec.save(folder)
            options = {"inter_threads": 1, "intra_threads": threads}
            self.translator = ctranslate2.Translator(folder, compute_type=kind, **options)

    def generate(self, source: np.ndarray, beam: int) -> Ids:
        texts = [[self.names[i] for i in row] for row in source.tolist()]
        results = self.translator.translate_batch(
            texts, beam_size=beam, min_decoding_length=NEW, max_decoding_length=NEW, max_batch_size=0
        )
        return [[self.ids[name] for name in result.hypotheses[0]] for result in results]


ENGINES = {
    "handloom": (Handloom,),
    "transformers": (Transformers,),
    "ctranslate2": (CTranslate2, "float32"),
    "ctranslate2-int8": (CTranslate2, "int8"),
}


def start(engines: Sequence[str], size: Size, threads: int) -> Any:
    """Return the workers by name."""
    subjects = {name: (ENGINES[name][0], size, threads, *ENGINES[name][1:]) for name in engines}
    return started(subjects, threads)


def compare(engines: Sequence[str], threads: int, repeat: int) -> list[dict[str, Any]]:
    """Measure all configurations one after the other. The runs of the engines are interleaved."""
    cells = []
    for title, size in SIZES.items():
        with start(engines, {**size, "positions": 128}, threads) as workers:
            for batch, beam in product((1, 32), (1, 4)):
                cells.append({"size": title, "batch": batch, "beam": beam, **measure(workers, batch, beam, repeat)})
                print(cells[-1], flush=True)
    return cells


def measure(workers: Mapping[str, Worker], batch: int, beam: int, repeat: int) -> dict[str, Any]:
    """Return the median tokens per second of each engine, after one warm-up run."""
    first = {name: worker.ask("run", batch, beam)[1] for name, worker in workers.items()}
    answers = interleaved(workers, repeat, "run", batch, beam)
    seconds = {name: [second for second, _ in runs] for name, runs in answers.items()}
    speed = {name: batch * NEW / statistics.median(times) for name, times in seconds.items()}
    others = [name for name in workers if name != "handloom"]
    return {
        "tokens per second": speed,
        "seconds": seconds,
        "ratios": {name: speed["handloom"] / speed[name] for name in others},
        "sequences with equal ids": {
            name: f"{sum(a == b for a, b in zip(first['handloom'], first[name], strict=True))} of {batch}"
            for name in others
        },
        "distinct ids": len({token for ids in first["handloom"] for token in ids}),
    }


def table(cells: list[dict[str, Any]], engines: list[str]) -> str:
    """Return a Markdown table: tokens per second of each engine, and handloom's speed divided by each other one's."""
    columns = {name: f"{name}:,.0f" for name in engines} | {f"to {name}": f"to {name}:.2f" for name in engines[1:]}
    rows = []
    for cell in cells:
        search = "greedy" if cell["beam"] == 1 else f"beam {cell['beam']}"
        ratios = {f"to {name}": ratio for name, ratio in cell["ratios"].items()}
        rows.append({"cell": f"{cell['size']}, batch {cell['batch']}, {search}", **cell["tokens per second"], **ratios})
    return markdown_table(rows, {"cell": ""} | columns)


def main() -> None:
    parser = program(__doc__, threads=2)
    parser.add_argument(
        "--engines", nargs="+", choices=ENGINES, default=["transformers"], help="engines to compare with handloom"
    )
    parser.add_argument("--repeat", type=int, default=5, help="runs of each engine per configuration (default: 5)")
    options = parser.parse_args()
    engines = list(dict.fromkeys(["handloom", *options.engines]))
    cells = compare(engines, options.threads, options.repeat)
    print(table(cells, engines))
    common = {**conditions("transformers", "torch", "ctranslate2"), "threads": options.threads}
    common["handloom uses"] = [name for name, _ in libraries().values() if name]
    write_results(options.json, {**common, "rows": cells})


if __name__ == "__main__":
    run_main(main)
