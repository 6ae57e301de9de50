from __future__ import annotations

import polars as pl
import pytest

from slowstep.analyses.events.kernel_class import classify, is_collective

# Names as they stand in traces of A100, V100, H100, B200, MI250 and MI300 devices, cut at the end where they are long.
NAMES = [
    ("cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align4", "matmul", "tf32", True),
    ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x64_64x6_tn_align8>(", "matmul", "bfloat16", True),
    ("ampere_sgemm_32x32_sliced1x4_tn", "matmul", "float32", False),
    ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", "matmul", "float16", True),
    ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_stages_64x3_tn", "matmul", "float16", True),
    ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize1x4x1_ffma_aligna4", "matmul", "float32", False),
    ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1", "matmul", "bfloat16", True),
    ("nvjet_tst_64x64_64x16_2x1_2cta_v_bz_bias_TNT", "matmul", "bfloat16", True),
    ("nvjet_hsh_128x128_64x4_2x1_v_bz_TNN", "matmul", "float16", True),
    ("Cijk_Ailk_Bljk_BBS_BH_MT64x64x64_MI16x16x16x1_SN_1LDSB0_APM1", "matmul", "bfloat16", True),
    ("Cijk_Alik_Bljk_SB_Bias_AS_SAV_UserArgs_MT64x16x32_MI16x16x1_SN", "matmul", "float32", True),
    ("Cijk_Alik_Bljk_SB_MT64x64x8_SE_TT4_4_WG16_16_1", "matmul", "float32", False),
    ("void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>(", "matmul", "float32", False),
    ("triton_tem_fused_addmm_0", "matmul", None, None),
    ("sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tensor16x8x8", "convolution", "tf32", True),
    ("cudnn_ampere_scudnn_128x64_relu_xregs_large_nn_v1", "convolution", "float32", False),
    ("igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8_ws1x1", "convolution", "bfloat16", True),
    ("_ZN2ck16tensor_operation6device37kernel_batched_gemm_xdlops_bwd_weightINS_47Gridwise", "convolution", None, True),
    ("cudnn-conv.1", "convolution", None, None),
    ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t>>", "attention", "bfloat16", True),
    (
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<Mainloop<2, cutlass::bfloat16_t",
        "attention",
        "bfloat16",
        True,
    ),
    ("void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnBwdSm90<cutlass::half_t", "attention", "float16", True),
    ("void cutlass::device_kernel<flash::FlashAttnBwdPreprocess<cute::tuple<cute::C<128>>, cutlass::half_t", "attention", "float16", None),
    ("void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<cute::C<8>>, float", "attention", "float32", None),
    ("void flash::prepare_varlen_num_blocks_kernel<1, false>(int, int, int const*)", "attention", None, None),
    ("fused_moe_kernel", "matmul", None, None),
    ("fused_moe_kernel_gptq_awq", "matmul", None, None),
    ("fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention", "attention", "float16", None),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::Half>", "elementwise", "float16", False),
    (
        "void at::native::vectorized_elementwise_kernel<4, nan_to_num_kernel_cuda(c10::optional<double>)::{lambda(float)#1}>",
        "elementwise",
        "float32",
        False,
    ),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<double>", "elementwise", "float64", False),
    ("void at::native::vectorized_elementwise_kernel<(int)4, at::native::<unnamed>::CompareEqFunctor<long>", "elementwise", None, False),
    ("triton_poi_fused_convolution_relu_0", "elementwise", None, False),
    ("loop_multiply_fusion.3", "elementwise", None, False),
    ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float", "reduction", "float32", False),
    ("triton_red_fused_sum_1", "reduction", None, False),
    ("void splitKreduce_kernel<float, float, float, float, true, false, false>(cublasSplitKParams<float>", "reduction", "float32", False),
    ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(", "normalization", "bfloat16", False),
    ("triton_per_fused_native_layer_norm_2", "normalization", None, False),
    ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 128, true, 1, true>(", "normalization", "float32", False),
    ("void (anonymous namespace)::softmax_warp_forward<float, float, float, 6, false>", "normalization", "float32", False),
    (
        "void split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_cta_per_row_1<c10::Half, float>(fbgemm",
        "embedding",
        "float16",
        False,
    ),
    ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>", "optimizer", "float32", False),
    ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "collective", "float32", False),
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "collective", "bfloat16", False),
    ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "collective", None, False),
    ("mscclKernel_Sum_half_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)", "collective", "float16", False),
    ("mscclKernel_Sum_hip_bfloat16_Simple_false", "collective", "bfloat16", False),
    ("void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*, int*, long*", "collective", None, False),
    ("void deep_ep::internode_ll::combine<true, 7168, 10, 9>(void*, void*, int*", "collective", None, False),
    ("void deep_ep::layout::get_dispatch_layout<256, 4, 8>(long const*, int*", "other", None, None),
    ("void moe_align_block_size_kernel<int>(int*, int*, int*, int*, int, int)", "other", None, None),
    ("void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(", "other", "float32", None),
    ("void cub::DeviceRadixSortOnesweepKernel<long, int>", "other", None, None),
    ("batched_transpose_16x32_half", "other", None, None),
]


@pytest.mark.parametrize(("name", "kind", "precision", "tensor_core"), NAMES)
def test_a_kernels_name_tells_what_it_is(name, kind, precision, tensor_core):
    row = classify(pl.Series([name])).row(0, named=True)

    assert row == {"class": kind, "precision": precision, "tensor_core": tensor_core}


def test_rows_keep_their_order_and_names_may_repeat_or_be_missing():
    names = pl.Series("name", ["ampere_sgemm_32x32_tn", None, "ncclDevKernel_Generic(", "ampere_sgemm_32x32_tn"], dtype=pl.Categorical)

    assert classify(names)["class"].to_list() == ["matmul", "other", "collective", "matmul"]
    assert is_collective(names).to_list() == [False, None, True, False]
    assert classify(names.clear()).height == 0


@pytest.mark.parametrize(
    "name", ["all-reduce.1", "void vllm::cross_device_reduce_1stage<float, 2>", "multimem_all_reduce_kernel<c10::BFloat16>"]
)
def test_collectives_of_other_libraries_are_known(name):
    assert is_collective(pl.Series([name])).to_list() == [True]


@pytest.mark.parametrize("name", ["void at::native::reduce_kernel<512, 1>", "aten::broadcast_tensors", "Memcpy HtoD (Pinned -> Device)"])
def test_what_only_sounds_like_a_collective_is_none(name):
    assert is_collective(pl.Series([name])).to_list() == [False]
