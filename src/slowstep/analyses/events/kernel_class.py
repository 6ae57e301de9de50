"""What a kernel's name tells: what kind of work it does, in which precision, and whether on Tensor Cores.

Sources of the naming facts: CUTLASS' names (`tensorop` and `simt` are the operator class, `s16816` is accumulator type and instruction
shape) are explained in its profiler's documentation; cuBLAS' and cuDNN's (`h884`, `s1688`, `hmma`, `xmma_gemm`) stand in the list of names
of Kineto's TensorBoard plugin (torch_tb_profiler, tensor_core.py), which has them from NVIDIA's DLProf. `ffma`, inside some of them, is
the instruction of the ordinary cores. Tensile's (`Cijk_..._BBS_BH_MT64x64x64_MI16x16x16x1`: element types, tile, matrix instruction) in
the kernel parameters of Tensile's documentation; `xdlops` and `gtcx` are what composable_kernel and MIOpen call AMD's matrix cores.
PyTorch's own kernels carry their element types as template arguments. FlashAttention-3's are the classes that its launch templates start
(Dao-AILab/flash-attention, hopper/flash_fwd_launch_template.h and flash_bwd_launch_template.h); `fused_moe_kernel` is the grouped product
of vLLM and SGLang (fused_moe.py, in Triton). DeepEP's are the functions of csrc/kernels/ (deepseek-ai/DeepEP), of which those of `layout`
count and send nothing; `mscclKernel_<reduction>_<type>_...` is RCCL's (src/include/msccl/msccl_kernel.h).
"""

from __future__ import annotations

from typing import Final

import polars as pl

from slowstep.analyses.events.names import matches

COLLECTIVE: Final = (
    r"(?i)^nccl|nccl(dev)?kernel|^rccl|rccl.*kernel|multimem_(all|reduce|one)|(one|two)_?shot_?all_?reduce|cross_device_reduce"
    r"|^msccl_?kernel|deep_ep::int(ra|er)node(_ll)?::"
    r"|^(all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute|collective-broadcast)|all_?reduce.*kernel|kernel.*all_?reduce"
)

# The first that matches is the class. Softmax counts as a normalization, a look-up by index as an embedding; transpositions, copies,
# concatenations and sorts are "other". Kernels over lists of tensors are the optimizers': nothing else of a training uses them much.
# Inductor names its kernels after all operators that it fused, so that only the kind of the kernel (poi: pointwise, red and per:
# reductions, for: lists of tensors, tem: a template) tells what they are.
CLASSES: Final = (
    ("elementwise", r"^triton_poi_"),
    ("normalization", r"^triton_(red|per)_.*(norm|softmax)"),
    ("reduction", r"^triton_(red|per)_"),
    ("optimizer", r"^triton_for_"),
    ("collective", COLLECTIVE),
    (
        "optimizer",
        r"(?i)multi_tensor_apply|adam|adagrad_?(kernel|update)|sgd_?(kernel|functor|momentum)|lamb_?(kernel|functor|stage)|koptimizer",
    ),
    ("reduction", r"(?i)split_?k_?reduce|reduce_wgrad|reduce_.*split"),
    (
        "other",
        r"(?i)computeb?offsets|generatewinogradtiles|nchwtonhwc|nhwctonchw|cnhw2nchw|nchw2cnhw|batched_transpose|quantize|quant_kernel",
    ),
    (
        "attention",
        r"(?i)flash_?(fwd|bwd|attn|decode)|flash::prepare_varlen|fmha|attention|attn_(fwd|bwd|forward|backward)|fused_attn|sdpa|bwd_kernel_d(k_?dv|q)|mha_(fwd|bwd)",
    ),
    (
        "convolution",
        r"(?i)conv([^e]|$)|[wd]grad|fprop|winograd|igemm_(fwd|bwd|wrw)|implicit_gemm|[sh0-9]cudnn_|fft2d_|im2col|col2im|vol2col|bwd_(weight|data)",
    ),
    (
        "normalization",
        r"(?i)(batch|layer|group|instance|rms)_?norm|softmax|bn_(fw|bw)_|ln_(fwd|bwd)|gammabeta|rowwisemoments|computeinternalgradients",
    ),
    ("matmul", r"(?i)(^|[^b])gemm|gemv|matmul|nvjet|^cijk_|^bmm_|triton_(tem|mm|bmm)|(^|_)(mm|bmm|addmm|fused_moe)_kernel|wmma|syrk"),
    ("embedding", r"scatter_gather_elementwise|index_elementwise"),
    ("elementwise", r"(?i)rotary|elementwise|subtensorop|dropout|^loop_.*fusion|^wrapped_(add|multiply|convert|subtract|divide)"),
    (
        "embedding",
        r"(?i)embedding|pooled_emb|index_?select|vectorized_gather|gather_kernel|bounds_check_indices|compute_grad_weight|indexing_backward",
    ),
    (
        "reduction",
        r"(?i)reduce|nll_loss|cross_?entropy|device_?scan|arg_?(max|min)|(^|[^a-z])dot_kernel|lpnorm",
    ),
    ("elementwise", r"(?i)activation|gelu|silu|relu|fillfunctor|distribution_"),
)

# What these do needs no Tensor Cores, so that their names need not say it.
ORDINARY: Final = ("elementwise", "reduction", "normalization", "embedding", "optimizer", "collective")

TENSOR_CORES: Final = (
    r"(?i)tensorop|[shdic](884|1688|8816|16816|16832|16864|161616)|tensor[0-9]+x[0-9]+x[0-9]+|[hiq]mma|gmma|warpgroup|nvjet|wmma|sm100_xmma"
    r"|flash_(fwd|bwd)|flashattn(fwd|bwd)sm[0-9]|fmhasm(90|100)|bmm_.*_(mxe|bfloat|fp16|e4m3).*_tma|mfma|xdl|gtcx|^cijk_.*_mi[0-9]+x"
)
ORDINARY_CORES: Final = (
    r"(?i)ffma|simt|(^|[^a-z])[sdcz]gemm|gcgemm|(^|[^0-9a-z])scudnn|_scudnn|gemv|fft2d_|winograd_nonfused|alg0_engine|convolve_common_engine"
    r"|convolve_sgemm|dgrad2d|^cijk_|naive_conv"
)

# The first that matches is the precision; of several element types the narrowest is what the kernel reads.
PRECISIONS: Final = (
    ("float8", r"(?i)float8|e4m3|e5m2|fp8"),
    ("float8", r"^Cijk_[A-Za-z]+_[A-Za-z]+_(F8|B8)"),
    ("bfloat16", r"(?i)bfloat16|bf16|bhalf"),
    ("bfloat16", r"^Cijk_[A-Za-z]+_[A-Za-z]+_B[BSH_]"),
    ("bfloat16", r"nvjet_(sm[0-9]+_)?t"),
    ("float16", r"(?i)c10::half|__half|half_t|_half_|float16|fp16|(^|[^0-9a-z])f16|f16f16|h(884|1688|16816)|hgemm|_hcudnn|sum_half"),
    ("float16", r"^Cijk_[A-Za-z]+_[A-Za-z]+_H[HSB_]"),
    ("float16", r"nvjet_(sm[0-9]+_)?h"),
    ("float16", r"[sh]884(gemm|cudnn)"),
    ("tf32", r"(?i)tf32|s1688gemm|s1688(fprop|dgrad|wgrad)"),
    ("int8", r"(?i)i(8816|16832|16864)|i8i8|[iq]mma|^cijk_[a-z]+_[a-z]+_(i8|4xi8)"),
    ("float64", r"(?i)d884|f64f64|dgemm|^cijk_[a-z]+_[a-z]+_(db|ddd|d_b)"),
    (
        "float32",
        r"(?i)(^|[^a-z0-9])float[24]?([^a-z0-9]|$)|f32f32|(^|[^a-z0-9])(f32|fp32)([^a-z0-9]|$)|[^a-z]sgemm|gcgemm|[^a-z]cgemm|scudnn",
    ),
    ("float32", r"^Cijk_[A-Za-z]+_[A-Za-z]+_(SB|SSS|S_B|S_MX|CB)"),
    ("float64", r"(^|[^a-z0-9_])double([^a-z0-9_]|$)"),
)
# Bytes that are sent on, whatever they mean: NCCL's send and receive know no element type, and DeepEP's `float*` are scales and weights.
TYPELESS: Final = r"(?i)sendrecv|ncclDevKernel_Generic|deep_ep::\w+::\w*dispatch"


def is_collective(names: pl.Series) -> pl.Series:
    """Whether each device event's name, shape (n,), is that of a collective's kernel; boolean, shape (n,), null where the name is."""
    return matches(names, COLLECTIVE).set(names.is_null(), None)


def classify(names: pl.Series) -> pl.DataFrame:
    """What kernels' names, shape (n,), tell: `class` (see the table `kernels`), `precision` and `tensor_core`, null where they do not.

    The rows are those of `names`. The patterns are tried on each different name once: a trace has few names and millions of events.
    """
    unique = names.cast(pl.String).unique()
    name = pl.col("name")
    classed = pl.DataFrame({"name": unique}).with_columns(_first_match(name, CLASSES).fill_null("other").alias("class"))
    classed = classed.with_columns(
        pl.when(name.str.contains(TYPELESS)).then(None).otherwise(_first_match(name, PRECISIONS)).alias("precision"),
        _tensor_core(name, pl.col("class")).alias("tensor_core"),
    )
    return _by_name(names, classed).drop("name")


def _tensor_core(name: pl.Expr, kind: pl.Expr) -> pl.Expr:
    # A name may hold both kinds of words: the instruction that is spelt out counts more than the family.
    ordinary = kind.is_in(ORDINARY) | name.str.contains("(?i)ffma|simt")
    unless_said = pl.when(name.str.contains(ORDINARY_CORES)).then(False).otherwise(None)
    return pl.when(ordinary).then(False).otherwise(pl.when(name.str.contains(TENSOR_CORES)).then(True).otherwise(unless_said))


def _first_match(name: pl.Expr, patterns: tuple[tuple[str, str], ...]) -> pl.Expr:
    found = [pl.when(name.str.contains(pattern)).then(pl.lit(value)) for value, pattern in patterns]
    return pl.coalesce(found)


def _by_name(names: pl.Series, found: pl.DataFrame) -> pl.DataFrame:
    rows = pl.DataFrame({"name": names.cast(pl.String)})
    return rows.join(found, on="name", how="left", maintain_order="left", nulls_equal=True)
