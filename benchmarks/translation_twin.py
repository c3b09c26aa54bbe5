"""Compare learning with PyTorch: German into English on Tatoeba, with two models of equal size.

    python -m benchmarks.translation_twin --steps 600

Both models start from the same weights and are trained on the same batches in the same order, with the same schedule,
label smoothing and clipping. Only the dropout masks of the two models differ. No English sentence of the test set is in
the training data. The same code evaluates both models: PyTorch's weights are loaded into handloom's model. To show that
this transfer is exact, handloom's loss on a batch is compared with PyTorch's loss.
"""

import dataclasses
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.side_by_side import conditions, merge_rows, missing, program
from benchmarks.train_step_models import prepare
from benchmarks.train_step_subjects import Handloom, Torch, save_batches

DATA, PRESET = "tatoeba", "laptop"
TESTS = 1000  # pairs that are translated


def train(subject: Any, steps: int, side: str) -> float:
    """Train for `steps` steps. Return the processor time in seconds."""
    start = time.process_time()
    for step in range(1, steps + 1):
        loss = subject.step()
        if step % 50 == 0 or step == steps:
            print(f"{side}, step {step}: training loss {loss:.3f}", flush=True)
    return time.process_time() - start


def evaluate(model: Any, tokenizer: Any, data: Any) -> dict[str, float]:
    """Return the loss on the validation pairs, in nats per token, and BLEU on the first test pairs."""
    from handloom.train.tables.pairs import mean_loss
    from handloom.train.tasks.metrics import bleu
    from handloom.train.tasks.translation import Translator

    translator, pairs = Translator(model.eval(), tokenizer), data.test[:TESTS]
    texts = translator.translate([source for source, _ in pairs], beam=5, too_long="truncate")
    score = bleu(texts, [target for _, target in pairs])
    return {"valid_loss": mean_loss(translator, data.valid), "bleu": score.value, "signature": score.signature}


def adopt(model: Any, twin: Torch, batch: Any) -> float:
    """Load PyTorch's weights into handloom's model. Return the difference of the two models' losses on a batch."""
    from handloom.autograd import no_grad
    from handloom.train.tasks.translation import translation_loss

    state = {name: tensor.numpy() for name, tensor in twin.model.state_dict().items()}
    model.load_state_dict({name: state[name] for name in model.state_dict()})
    model.eval(), twin.model.eval()
    with no_grad(), twin.torch.no_grad():
        ours = translation_loss(0.0, 0)(model, batch)[0].item()
        theirs = twin.model(**twin.tensors(dataclasses.asdict(batch))).item()
    return abs(ours - theirs)


def main() -> None:
    parser = program(__doc__)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="change a value of the preset")
    parser.add_argument("--steps", type=int, default=600, help="updates of each model (default: 600)")
    parser.add_argument("--warmup", type=int, default=200, help="warm-up steps of the noam schedule (default: 200)")
    arguments = parser.parse_args()
    if reason := missing():
        sys.exit(reason)
    if min(arguments.steps, arguments.warmup) < 1:
        parser.error("--steps and --warmup must be at least 1")
    data, tokenizer, size, batches = prepare(DATA, PRESET, arguments.set, arguments.steps)
    print(data.summary(), *data.notes, sep="\n")
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "batches.npz")
        save_batches(file, batches)
        subject = Handloom(dataclasses.asdict(size), str(file), arguments.warmup)
        twin = Torch("lean", 1, dataclasses.asdict(size), str(file), arguments.warmup)
        twin.load(subject.weights())
        print(f"{subject.model.parameter_count():,} parameters each, {arguments.steps} steps", flush=True)
        for side, one in (("handloom", subject), ("PyTorch", twin)):
            seconds = train(one, arguments.steps, side)
            own_check = {} if one is subject else {"losses_apart": adopt(subject.model, twin, batches[0])}
            own = evaluate(subject.model, tokenizer, data)
            found[side] = {**own, **own_check, "cpu_seconds": round(seconds)}
            figures = f"validation loss {own['valid_loss']:.4f}, BLEU {own['bleu']:.2f} ({own['signature']})"
            print(f"{side}: {figures}, {seconds:.0f} s of processor time", flush=True)
    apart = found["PyTorch"]["losses_apart"]
    print(f"loss of one batch, by PyTorch and by handloom with PyTorch's weights: difference {apart:.1e}")
    if arguments.json:
        row = {
            "config": f"{data.name}, {PRESET}, {arguments.set}, {arguments.steps} steps",
            **found,
            "test_pairs": min(TESTS, len(data.test)),
            "parameters": subject.model.parameter_count(),
            **conditions("torch"),
        }
        merge_rows(arguments.json, [row])


if __name__ == "__main__":
    main()
