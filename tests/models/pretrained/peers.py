"""Create reference models of `transformers` with random weights, and save them in folders."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

MARIAN = {
    "vocab_size": 20, "d_model": 16, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 24, "decoder_ffn_dim": 20, "max_position_embeddings": 32,
    "pad_token_id": 19, "eos_token_id": 0, "decoder_start_token_id": 19, "forced_eos_token_id": 0,
    "activation_function": "swish", "scale_embedding": True,
}  # fmt: skip
GPT2 = {
    "vocab_size": 20, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 32, "bos_token_id": 0, "eos_token_id": 0
}  # fmt: skip
LLAMA = {
    "vocab_size": 20, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 32, "bos_token_id": 1, "eos_token_id": 0,
}  # fmt: skip
BERT = {
    "vocab_size": 20, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 32, "num_labels": 3,
}  # fmt: skip
DISTIL = {
    "vocab_size": 20, "dim": 16, "hidden_dim": 24, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 32,
    "num_labels": 3,
}  # fmt: skip
STRETCHED = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip

#: Case -> (configuration class, model class, sizes)
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "marian": ("MarianConfig", "MarianMTModel", MARIAN),
    "marian, two vocabularies": (
        "MarianConfig", "MarianMTModel",
        {**MARIAN, "decoder_vocab_size": 23, "share_encoder_decoder_embeddings": False, "scale_embedding": False,
         "activation_function": "gelu", "decoder_attention_heads": 2, "decoder_ffn_dim": 24},
    ),
    "marian, an output of its own": (
        "MarianConfig", "MarianMTModel", {**MARIAN, "tie_word_embeddings": False, "activation_function": "relu"}
    ),
    "pegasus": ("PegasusConfig", "PegasusForConditionalGeneration", MARIAN),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", GPT2),
    "gpt2, relu and an output of its own": (
        "GPT2Config", "GPT2LMHeadModel",
        {**GPT2, "activation_function": "relu", "n_inner": 20, "tie_word_embeddings": False,
         "layer_norm_epsilon": 1e-3},
    ),
    "llama": ("LlamaConfig", "LlamaForCausalLM", LLAMA),
    "llama, stretched, with biases": (
        "LlamaConfig", "LlamaForCausalLM",
        {**LLAMA, "attention_bias": True, "mlp_bias": True, "num_key_value_heads": 1, "head_dim": 6,
         "rope_parameters": STRETCHED},
    ),
    "llama, tied, slower": (
        "LlamaConfig", "LlamaForCausalLM",
        {**LLAMA, "tie_word_embeddings": True, "rms_norm_eps": 1e-3, "num_key_value_heads": 4,
         "rope_parameters": {"rope_type": "linear", "rope_theta": 300.0, "factor": 2.0}},
    ),
    **{f"mistral, window {size}": ("MistralConfig", "MistralForCausalLM", {**LLAMA, "sliding_window": size})
       for size in (1, 4)},
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", LLAMA),
    "bert": ("BertConfig", "BertForSequenceClassification", BERT),
    "bert, relu and one part": (
        "BertConfig", "BertForSequenceClassification",
        {**BERT, "hidden_act": "relu", "type_vocab_size": 1, "layer_norm_eps": 1e-3, "num_labels": 5},
    ),
    "distilbert": ("DistilBertConfig", "DistilBertForSequenceClassification", DISTIL),
}  # fmt: skip


def make(case: str, folder: Path, seed: int = 0) -> Any:
    """Create a random model in evaluation mode, save it in the folder, and return it."""
    config, model, sizes = CASES[case]
    torch.manual_seed(seed)
    made = getattr(transformers, model)(getattr(transformers, config)(**sizes)).eval()
    made.config._attn_implementation = "eager"
    with torch.no_grad():
        for name, parameter in [*made.named_parameters(), *made.named_buffers()]:
            parameter.requires_grad_(parameter.requires_grad and "embed_positions" not in name)
            if "embed_positions" in name or "position_ids" in name or "inv_freq" in name:
                continue
            if parameter.is_floating_point():
                around = 1.0 if "norm" in name.lower() or ".ln_" in name else 0.0
                parameter.copy_(torch.randn_like(parameter) * 0.3 + (around if name.endswith("weight") else 0.0))
        if model == "MarianMTModel":
            made.final_logits_bias[0, 0] = 2.0  # so that some sentences end before the limit
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.save_pretrained(folder)
    return made


def logits(model: Any, *inputs: np.ndarray, **more: Any) -> Any:
    """Return the logits of a model of `transformers` for input ids, and target ids for an encoder-decoder."""
    tensors = [torch.tensor(one) for one in inputs]
    if len(tensors) == 2:
        more["decoder_input_ids"] = tensors[1]
    return model(input_ids=tensors[0], **more).logits


def again(case: str, folder: Path) -> Any:
    """Return the model that `transformers` loads from a folder; check that it finds every weight."""
    loaded, told = getattr(transformers, CASES[case][1]).from_pretrained(folder, output_loading_info=True)
    assert not any(told.values()), told
    loaded.config._attn_implementation = "eager"
    return loaded.eval()
