"""Host-side bugs of kernel launches, for the table in tests/support/kernel_mutant_list.py."""

# ruff: noqa: E501  (one bug a line: its kind, what becomes what, who must notice)

from tests.autograd import test_gpus as _gpus
from tests.autograd.kernels import test_attention_kernels as _attention
from tests.autograd.kernels import test_fused as _fused
from tests.autograd.kernels import test_graphs as _graphs
from tests.autograd.kernels import test_products as _products
from tests.autograd.kernels import test_update as _update
from tests.autograd.ops import test_attention_on_device as _on_device
from tests.autograd.ops import test_fused_on_device as _device
from tests.support.attention_mutants import DROPOUT, EVERYTHING, HALF, attention
from tests.support.mutants import each, kernel_mutant

replayed = each(_graphs.test_every_form_is_plain_then_captured_then_replayed)
refused = each(_graphs.test_what_a_capture_refuses, (lambda _cuda, x: x.sum().item(),))
constants = each(_graphs.test_a_constant_is_kept)
stacks = each(_products.test_a_stack_of_products, *((name,) for name in _products.STACKS))
arguments = each(_products.test_the_library_gets_every_argument_as_c_expects_it)
added = each(_products.test_a_product_is_added_in_float32, (True,), (False,))
anywhere = each(_attention.test_rows_may_begin_and_end_anywhere, *((place,) for place in _attention.PLACES))
two_widths = each(_attention.test_variants_are_kept_apart)
begin = each(_fused.test_arrays_may_begin_anywhere, (HALF,))
tickets = each(_fused.test_tickets_suffice_for_the_widest_and_for_most_blocks)
views = each(_device.test_views_are_as_good_as_copies, *((name,) for name in _device.OPS))
other_gpu = each(_gpus.test_kernels_run_on_the_gpu_of_their_arrays_or_say_so)
masks = each(_gpus.test_every_call_of_dropout_draws_a_mask_of_its_own)
norm = each(_fused.test_layer_norm, ((13, 264), "and past", HALF))
sums = each(_fused.test_sums_of_columns)
order = each(_fused.test_ids_are_sorted_and_equal_ones_stay_in_order, (129, 255), (1000, 256))
total = each(_fused.test_the_total_loss_and_its_gradients_factor, (33, HALF))
parts = each(_update.test_parts_are_added_each_in_its_place, (HALF,))
update = each(_update.test_updates_are_those_of_the_optimiser_with_clipping, (97, HALF))

GRAPH, ENTRY, PRODUCT, LOAD = "kernels.graphs:Graphs.", "kernels.graphs:_BatchGraph.", "kernels.products:", "kernels.products:load_cublas"
KERNELS, FUSED, OPS, OP = "kernels.attention:AttentionKernels.", "kernels.fused:", "kernels.ops:", "kernels.attention_op:FusedAttention."

HOST_MUTANTS = [
    kernel_mutant("graphs", GRAPH + "__call__", "entry.graph.launch()", "entry.graph.launch(self.stream)", replayed),
    kernel_mutant("graphs", GRAPH + "__call__", "entry.fill(leaves)", "if first: entry.fill(leaves)", replayed),
    kernel_mutant("graphs", GRAPH + "__call__", "if first:", "if False:", replayed),
    kernel_mutant("graphs", GRAPH + "__call__", "value.copy() if is_array(value) else value", "value", each(_graphs.test_results_are_the_caller_s)),
    kernel_mutant("graphs", GRAPH + "__call__", "key = name, _key_of", "key = 0, _key_of", each(_graphs.test_names_and_numbers_make_graphs_of_their_own)),
    kernel_mutant("graphs", GRAPH + "__call__", "popitem(last=False)", "popitem()", each(_graphs.test_the_oldest_graph_makes_room)),
    kernel_mutant("graphs", "kernels.graphs:_key_of", "value.shape, value.dtype.str", "value.shape", each(_graphs.test_arrays_of_a_batch_are_aligned_and_keep_their_types)),
    kernel_mutant("graphs", ENTRY + "__init__", "-(-leaf.nbytes // _ALIGNMENT) * _ALIGNMENT", "-(-leaf.nbytes // 4) * 4", each(_graphs.test_arrays_of_a_batch_are_aligned_and_keep_their_types)),
    kernel_mutant("graphs", ENTRY + "fill", "    self.buffer[...] =", "    with self.cupy.cuda.Stream(non_blocking=True): self.buffer[...] =", replayed),
    kernel_mutant("graphs", GRAPH + "_capture", "(), held", "(), []", constants),
    kernel_mutant("graphs", "backend:constant", "    _capture.held.append(made)\n", "", constants),
    kernel_mutant("graphs", "backend:constant", "with xp.cuda.Stream.null:", "if True:", constants),
    kernel_mutant("graphs", GRAPH + "_capture", "cuda.using_allocator(self.pool.malloc), ", "", replayed),
    kernel_mutant("graphs", GRAPH + "_abandon", "self.stream.end_capture()", "pass", refused),
    kernel_mutant("graphs", GRAPH + "_capture", "self.cupy.get_default_memory_pool().free_all_blocks()", "pass", each(_graphs.test_no_memory_is_given_back_during_a_capture)),
    kernel_mutant("cuBLAS", PRODUCT + "_multiply", "c_float(1.0)", "c_double(1.0)", arguments),
    kernel_mutant("cuBLAS", PRODUCT + "_multiply", "c_float(old)", "c_double(old)", arguments),
    kernel_mutant("cuBLAS", LOAD, "library.cublasSetStream_v2.argtypes = [c_pointer, c_pointer]", "pass", arguments),
    kernel_mutant("cuBLAS", LOAD, "library.cublasSetWorkspace_v2.argtypes", "unused", arguments),
    kernel_mutant("cuBLAS", LOAD, "begin: list[Any] = [c_pointer,", "begin: list[Any] = [c_int,", arguments),
    kernel_mutant("cuBLAS", LOAD, "cuda.runtime.runtimeGetVersion() // 1000", "13", arguments),
    kernel_mutant("cuBLAS", PRODUCT + "_Handle.on", "if stream != self.stream:", "if self.stream < 0:", replayed),
    kernel_mutant("cuBLAS", PRODUCT + "_Handle.on", 'self.library.cublasSetWorkspace_v2(self.value, pointer, WORKSPACE)', "0", replayed),
    kernel_mutant("cuBLAS", PRODUCT + "_multiply", "_TRANSPOSED if z.turned else _AS_IT_IS", "_AS_IT_IS if z.turned else _TRANSPOSED", stacks),
    kernel_mutant("cuBLAS", PRODUCT + "_stack", "columns <= strides[-2] <= _FARTHEST", "columns <= strides[-2]", each(_products.test_rows_too_far_apart_for_the_library_are_copied, (False,))),
    kernel_mutant("cuBLAS", PRODUCT + "_one_step", "outer != inner * size", "False", stacks),
    kernel_mutant("cuBLAS", PRODUCT + "add_product", "total[None], 1.0", "total[None], 0.0", added),
    kernel_mutant("cuBLAS", PRODUCT + "_check", "if status:", "if False:", each(_products.test_a_failure_says_its_status)),
    kernel_mutant("views", "kernels.attention:_aligned", "address_of(x), ", "", anywhere),
    kernel_mutant("views", "kernels.attention:_aligned", ", x.shape[3] * x.itemsize", "", anywhere),
    kernel_mutant("views", "kernels.attention:_aligned", "*x.strides[:3]", "0", anywhere),
    kernel_mutant("views", "kernels.attention:_rows_contiguous", "return x if", "return x if True or", anywhere),
    kernel_mutant("views", "kernels.attention:_broadcast_strides", "0 if side == 1 else ", "", attention(HALF, (40, 70), "mask", "bias", seed=22)),
    kernel_mutant("views", FUSED + "_aligned", "x.data.ptr % 16 == 0 and", "", begin),
    kernel_mutant("views", FUSED + "_aligned", " and x.flags.c_contiguous", "", views),
    kernel_mutant("views", OPS + "DropoutOnDevice.forward", "contiguous(x)", "x", views),
    kernel_mutant("views", OPS + "SameDrop.forward", "contiguous(x)", "x", views),
    kernel_mutant("views", OPS + "LayerNormOnDevice.backward", "contiguous(g)", "g", each(_device.test_views_are_as_good_as_copies, ("layer_norm",))),
    kernel_mutant("views", OPS + "EmbeddingOnDevice.flat_ids", ".astype(np.int64, copy=False)", "", views),
    kernel_mutant("views", OPS + "CrossEntropyOnDevice.backward", "contiguous_rows(logits).copy()", "contiguous_rows(logits)", views),
    kernel_mutant("views", "kernels.update:add_parts", "array_module(part).ascontiguousarray(part)", "part", parts),
    kernel_mutant("launches", KERNELS + "forward", "(math.ceil(queries / per_block), heads, batch)", "(math.ceil(queries / per_block), batch, heads)", attention(HALF, (40, 70), stacked=(1, 3))),
    kernel_mutant("launches", KERNELS + "backward", "(tiles, heads, batch)", "(tiles, batch, heads)", attention(HALF, (40, 70), stacked=(3, 1))),
    kernel_mutant("launches", KERNELS + "_launch", "if shared > 48 * 1024:", "if False:", two_widths),
    kernel_mutant("launches", KERNELS + "_launch", "(file, name, *constants.values())", "(file, name)", two_widths),
    kernel_mutant("launches", KERNELS + "backward", "xp.zeros((batch, heads, tiles", "xp.empty((batch, heads, tiles", two_widths),
    kernel_mutant("launches", "kernels.attention:_pair_arguments", "keys - queries, head_dim", "0, head_dim", EVERYTHING),
    kernel_mutant("launches", "kernels.attention:_pair_arguments", "np.float32(options.scale),\n        *map", "options.scale,\n        *map", EVERYTHING),
    kernel_mutant("launches", OP + "call", "dtype=np.int32)", "dtype=np.int64)", EVERYTHING),
    kernel_mutant("launches", OP + "keep_whole", "self.random[1], int", "0, int", DROPOUT),
    kernel_mutant("launches", OP + "forward", "number | _ATTENTION", "number", each(_on_device.test_attention_shares_no_random_words_with_other_dropout)),
    kernel_mutant("launches", OP + "backward", "if self.deterministic else", "if False else", each(_attention.test_deterministic_gradients_do_not_depend_on_the_order_of_threads)),
    kernel_mutant("launches", FUSED + "embedding_backward", "pieces * tiles)", "pieces)", tickets),
    kernel_mutant("launches", FUSED + "layer_norm_backward", "shared = 8 * width + _FLAGS", "shared = 8 * width", norm),
    kernel_mutant("launches", FUSED + "column_sums", "np.int32(-(-rows // chunks))", "np.int32(rows // chunks)", sums),
    kernel_mutant("launches", FUSED + "sorted_ids", "-(-rows.bit_length() // 8)", "rows.bit_length() // 8", order),
    kernel_mutant("launches", FUSED + "scale_gradients", "np.int32(x is not out)", "np.int32(0)", total),
    kernel_mutant("launches", FUSED + "_launch_eights", "-(-x.size // 8)", "x.size // 8", each(_fused.test_dropout_and_its_sum_with_a_residual, (4099, HALF))),
    kernel_mutant("launches", "kernels.update:adam", "np.int64(decayed)", "np.int32(decayed)", update),
    kernel_mutant("launches", "kernels.loading:launch", "shared_mem=shared", "shared_mem=0", norm),
    kernel_mutant("devices", "backend:use_device", 'import_cupy().cuda.Device(int(device.partition(":")[2] or 0)).use()', "pass", other_gpu),
    kernel_mutant("devices", "backend:to_device", "with cupy.cuda.Device", "with contextlib.nullcontext() or cupy.cuda.Device", other_gpu),
    kernel_mutant("devices", "kernels.loading:launch", "on_device and", "False and", other_gpu),
    kernel_mutant("dropout", "random:Generator.next_call", "self._calls += 1", "pass", masks),
    kernel_mutant("dropout", "random:Generator.begin_calls", ", None, 0", ", self._seed_array, 0", masks),
    kernel_mutant("dropout", "random:Generator.next_call", "or device_of(self._seed_array) != device_of(x)", "", other_gpu),
]
