"""One engine that generates with the models of `benchmarks.decode`, in a process of its own.

Reads tasks from standard input and answers on standard output, one JSON object a line each. Every engine builds the
same weights from the same seed: those of a new handloom model, copied under the other's names.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from typing import Any

import numpy as np

from handloom.autograd import manual_seed
from handloom.models import Rules, Seq2SeqConfig, Seq2SeqTransformer, beam_search, greedy_search, stream

PAD, UNK, BOS, EOS = 0, 1, 2, 3


def build(size: dict[str, int]) -> Seq2SeqTransformer:
    manual_seed(0)
    config = Seq2SeqConfig(
        size["vocabulary"],
        size["vocabulary"],
        d_model=size["d_model"],
        nhead=size["d_model"] // 64,
        encoder_layers=size["layers"],
        decoder_layers=size["layers"],
        dim_feedforward=4 * size["d_model"],
        max_length=size["positions"],
        share_embeddings=True,
        tie_output=True,
    )
    model = Seq2SeqTransformer(config).eval()
    # In a new model with tied tables each token is its own likeliest successor. Larger feed-forward weights, and random
    # signs before the output layer, make sequences that vary.
    for layer in model.decoder.layers:
        layer.linear2.weight.data *= 4
        layer.multihead_attn.out_proj.weight.data /= 2
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size["d_model"])
    layer.norm3.weight.data *= signs.astype(np.float32)
    return model


def sentences(size: dict[str, int], batch: int, length: int) -> np.ndarray:
    """(batch, length) random ids that end with <eos>."""
    source = np.random.default_rng(1).integers(4, size["vocabulary"], (batch, length))
    source[:, -1] = EOS
    return source


class Handloom:
    def __init__(self, size: dict[str, int]):
        self.model = build(size)
        self.decoder = self.model.raw_decoder()

    def generate(self, source: np.ndarray, beam: int, tokens: int) -> list[list[int]]:
        rules = Rules(BOS, EOS, min_length=tokens, max_length=tokens)
        state = self.model.start(source, decoder=self.decoder)
        if beam == 1:
            return [hypothesis.ids for hypothesis in greedy_search(state, rules, scores=False)]
        return [best[0].ids for best in beam_search(state, rules, width=beam)]

    def steps(self, source: np.ndarray, tokens: int) -> list[float]:
        """Seconds of each token of a greedy generation."""
        state = self.model.start(source, decoder=self.decoder)
        times = [time.perf_counter()]
        for _ in stream(state, Rules(BOS, EOS, min_length=tokens, max_length=tokens)):
            times.append(time.perf_counter())
        return np.diff(times).tolist()


class Transformers:
    """Hugging Face's Marian model: post-norm, tied tables, sinusoidal positions, as handloom's."""

    def __init__(self, size: dict[str, int]):
        import torch
        from transformers import MarianConfig, MarianMTModel

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        self.torch = torch
        ours = build(size)
        config = MarianConfig(
            vocab_size=size["vocabulary"],
            d_model=size["d_model"],
            encoder_layers=size["layers"],
            decoder_layers=size["layers"],
            encoder_attention_heads=size["d_model"] // 64,
            decoder_attention_heads=size["d_model"] // 64,
            encoder_ffn_dim=4 * size["d_model"],
            decoder_ffn_dim=4 * size["d_model"],
            activation_function="relu",
            scale_embedding=True,
            max_position_embeddings=size["positions"],
            pad_token_id=PAD,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
        )
        self.model = MarianMTModel(config).eval()
        state = {name: torch.from_numpy(value.copy()) for name, value in marian_weights(ours).items()}
        missing, unexpected = self.model.load_state_dict(state, strict=False)
        assert not unexpected, unexpected
        tied = {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"}
        assert set(missing) <= tied | {"final_logits_bias"}, missing

    def generate(self, source: np.ndarray, beam: int, tokens: int) -> list[list[int]]:
        ids = self.torch.from_numpy(source)
        with self.torch.inference_mode():
            out = self.model.generate(
                ids,
                attention_mask=self.torch.ones_like(ids),
                num_beams=beam,
                do_sample=False,
                min_new_tokens=tokens,
                max_new_tokens=tokens,
                use_cache=True,
            )
        return out[:, 1:].tolist()


def marian_weights(model: Seq2SeqTransformer) -> dict[str, np.ndarray]:
    """Our parameters under the names of MarianMTModel."""
    result = {"model.shared.weight": model.source_embedding.weight.data}

    def copy(module: Any, name: str) -> None:
        result[f"{name}.weight"], result[f"{name}.bias"] = module.weight.data, module.bias.data

    norms = {
        "encoder": ("self_attn_layer_norm", "final_layer_norm"),
        "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
    }
    for side, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        result[f"model.{side}.embed_positions.weight"] = model.positions.table.data
        for number, layer in enumerate(stack.layers):
            prefix = f"model.{side}.layers.{number}"
            for position, name in enumerate(norms[side], 1):
                copy(getattr(layer, f"norm{position}"), f"{prefix}.{name}")
            copy(layer.linear1, f"{prefix}.fc1")
            copy(layer.linear2, f"{prefix}.fc2")
            for ours, theirs in (("self_attn", "self_attn"), ("multihead_attn", "encoder_attn")):
                if not hasattr(layer, ours):
                    continue
                attention = getattr(layer, ours)
                copy(attention.out_proj, f"{prefix}.{theirs}.out_proj")
                parts = np.split(attention.in_proj_weight.data, 3), np.split(attention.in_proj_bias.data, 3)
                for letter, weight, bias in zip("qkv", *parts, strict=True):
                    result[f"{prefix}.{theirs}.{letter}_proj.weight"] = weight
                    result[f"{prefix}.{theirs}.{letter}_proj.bias"] = bias
    return result


class CTranslate2:
    """The C++ engine, given a specification of our model; weights stay float32."""

    def __init__(self, size: dict[str, int]):
        import ctranslate2

        ours = build(size)
        layers, heads = (size["layers"],) * 2, size["d_model"] // 64
        spec = ctranslate2.specs.TransformerSpec.from_config(layers, heads, pre_norm=False)
        for part, stack in ((spec.encoder, ours.encoder), (spec.decoder, ours.decoder)):
            embeddings = part.embeddings[0] if isinstance(part.embeddings, list) else part.embeddings
            embeddings.weight, embeddings.multiply_by_sqrt_depth = ours.source_embedding.weight.data, True
            part.position_encodings.encodings = ours.positions.table.data
            for layer, target in zip(stack.layers, part.layer, strict=True):
                self._fill(layer, target)
        spec.decoder.projection.weight = ours.output.weight.data
        spec.decoder.projection.bias = ours.output.bias.data
        names = ["<pad>", "<unk>", "<s>", "</s>", *(str(i) for i in range(4, size["vocabulary"]))]
        self.names, self.ids = names, {name: i for i, name in enumerate(names)}
        spec.register_source_vocabulary(names)
        spec.register_target_vocabulary(names)
        with tempfile.TemporaryDirectory() as folder:
            spec.validate()
            spec.optimize(quantization=None)
            spec.save(folder)
            self.translator = ctranslate2.Translator(
                folder, compute_type="float32", inter_threads=1, intra_threads=int(os.environ["OMP_NUM_THREADS"])
            )

    def _fill(self, layer: Any, target: Any) -> None:
        def copy(module: Any, to: Any) -> None:
            to.weight, to.bias = module.weight.data, module.bias.data

        def norm(module: Any, to: Any) -> None:
            to.gamma, to.beta = module.weight.data, module.bias.data

        own = layer.self_attn
        target.self_attention.linear[0].weight = own.in_proj_weight.data
        target.self_attention.linear[0].bias = own.in_proj_bias.data
        copy(own.out_proj, target.self_attention.linear[1])
        norm(layer.norm1, target.self_attention.layer_norm)
        if hasattr(layer, "multihead_attn"):
            cross, d = layer.multihead_attn, layer.multihead_attn.embed_dim
            for number, part in ((0, slice(0, d)), (1, slice(d, None))):
                target.attention.linear[number].weight = np.ascontiguousarray(cross.in_proj_weight.data[part])
                target.attention.linear[number].bias = np.ascontiguousarray(cross.in_proj_bias.data[part])
            copy(cross.out_proj, target.attention.linear[2])
            norm(layer.norm2, target.attention.layer_norm)
        copy(layer.linear1, target.ffn.linear_0)
        copy(layer.linear2, target.ffn.linear_1)
        norm(layer.norm3 if hasattr(layer, "norm3") else layer.norm2, target.ffn.layer_norm)

    def generate(self, source: np.ndarray, beam: int, tokens: int) -> list[list[int]]:
        texts = [[self.names[i] for i in row] for row in source.tolist()]
        results = self.translator.translate_batch(
            texts, beam_size=beam, min_decoding_length=tokens, max_decoding_length=tokens, max_batch_size=0
        )
        return [[self.ids[name] for name in result.hypotheses[0]] for result in results]


ENGINES = {"handloom": Handloom, "transformers": Transformers, "ctranslate2": CTranslate2}


def main() -> None:
    engine: Any = None
    for line in sys.stdin:
        task = json.loads(line)
        if "build" in task:
            engine, answer = ENGINES[task["engine"]](task["build"]), {}
            size = task["build"]
        else:
            source = sentences(size, task["batch"], task["source"])
            if task.get("every_step"):
                print(json.dumps({"steps": engine.steps(source, task["tokens"])}), flush=True)
                continue
            start = time.perf_counter()
            ids = engine.generate(source, task["beam"], task["tokens"])
            answer = {"seconds": time.perf_counter() - start, "ids": ids}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
