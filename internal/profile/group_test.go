package profile

import (
	"strings"
	"testing"
)

// names are kernels as traces show them, of vLLM and its libraries, of SGLang,
// TensorRT-LLM, PyTorch, cuBLAS, CUTLASS, AITER, Composable Kernel and hipBLASLt, one a line.
var names = map[Group]string{
	Attention: `
		void transformer_engine::(anonymous namespace)::scaled_upper_triang_masked_softmax_warp_forward<__nv_bfloat16, float, 11>
		void ck::kernel_batched_gemm_softmax_gemm_xdl_cshuffle_v1
		flexattention
		qk_int_sv_f16_accum_f32
		fp8_index_kernel
		void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, false, false, cutlass::bfloat16_t>>
		void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128, 64>>
		void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2>>>>
		void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<cute::C<8>>>>
		void flash::prepare_varlen_num_blocks_kernel<1, true>(int, int, int, int const*)
		kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionForwardSm100_object_at__tensor0000
		pytorch_flash::flash_fwd_kernel
		fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel::Params)
		cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_6_64x128x128_4x1x1
		kernel_unified_attention_2d
		kernel_unified_attention_3d
		reduce_segments
		kernel_paged_attention_2d
		_fwd_kernel
		_fwd_kernel_stage2
		_fwd_grouped_kernel_stage1
		_fwd_grouped_kernel_stage1_rope
		void vllm::paged_attention_v2_kernel<unsigned short, unsigned short, 128, 16, 128>
		void vllm::merge_attn_states_kernel<__nv_bfloat16, 128u>
		void flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla<576, 64, 64, 8>>
		void flash_fwd_mla_combine_kernel<cutlass::bfloat16_t, float, long, 512>
		sm90::decode::sparse_fp8::flash_fwd_splitkv_mla_fp8_sparse_kernel
		get_mla_metadata_kernel(GetDecodingMetadataParams)
		void cutlass::device_kernel<cutlass::fmha::kernel::Sm100FmhaMlaKernelTmaWarpspecialized<cute::tuple<int>>>
		void deep_gemm::sm90_fp8_paged_mqa_logits<1u, 64u, 128u, 64u>
		void deep_gemm::sm100_fp8_mqa_logits<64u, 128u>
		void deep_gemm::smxx_clean_logits<8192u>
		void vllm::topKPerRowDecode<512, true>
		_convert_req_index_to_global_index_kernel
		void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, 2u>
		void flashinfer::BatchPrefillWithRaggedKVCacheKernel<flashinfer::KernelTraits>
		void flashinfer::PrefillWithKVCacheKernel<flashinfer::CollectiveMainloop>
		void flashinfer::SinglePrefillWithKVCacheKernel<flashinfer::KernelTraits>
		void flashinfer::PersistentVariableLengthMergeStatesKernel<8u, 16u>
		void flashinfer::mla::hopper::BatchMLAPageAttentionHopperKernel<flashinfer::mla::hopper::HopperKernelTraits>
		fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalP16MultiCtasKvVarSeqQ8Kv128StaticSwapsAbForGen
		fmhaSm100aKernel_QkvE4m3OBfloat16HQk576HV512HVPerCta256PagedKvDenseP64VarSeqQ64Kv128Persistent2CtaKeepsAbForGen
		void fmhaReductionKernel<512, true>
		fmha_v2_flash_attention_bf16_64_128_S_qkv_128_sm90_kernel_nl
		void tensorrt_llm::kernels::mmha::masked_multihead_attention_kernel<unsigned short>
		kernel_mha
		void paged_attention_ll4mi_QKV_mfma16_kernel<__hip_bfloat16, unsigned char>
		void paged_attention_ll4mi_reduce_kernel<__hip_bfloat16, 128>
		_ZN7ck_tile6kentryILi1ENS_13FmhaFwdKernelINS_32BlockFmhaPipelineQRKSVSAsync
		aiter::fmha_fwd_hd128_bf16_causal_a32_rtne_group
		mla_a16w16_qh16_m16x4_n16x1_coex0_mask1_ps
		aiter::mla_a8w8_qh128_m32x4_n16x2_msk1_ps
		aiter::mla_dec_stage1_bf16_a16w16_subQ16_mqa16
		kn_mla_reduce_v1<128, 512>
		kn_get_mla_metadata_v1
		aiter::pa_bf16_noquant_gqa8_1tg_4w
		_selective_scan_update_kernel
		_chunk_scan_fwd_kernel
		_chunk_state_fwd_kernel
		_state_passing_fwd_kernel
		chunk_gated_delta_rule_fwd_kernel_h_blockdim64
		fused_recurrent_gated_delta_rule_fwd_kernel
		chunk_local_cumsum_scalar_kernel
		chunk_scaled_dot_kkt_fwd_kernel
		recompute_w_u_fwd_kernel
		chunk_fwd_kernel_o
		fused_gdn_gating_kernel
		void causal_conv1d_fwd_kernel<Causal_conv1d_fwd_kernel_traits<128, 4>>
		_fwd_kv_parallel
		lightning_attention_decode_kernel`,
	GEMM: `
		void mul_mat_vec_q<(ggml_type)12, 1, false, false>
		void mul_mat_q<(ggml_type)8, 64, false>
		void kgemm_4bit_inference_naive
		cutlass3x_sm100
		sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas
		sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_relu_tilesize128x64
		nvjet_tst_192x208_64x4_1x1_h_bz_coopB_bias_TNT
		nvjet_sm100_tst_128x256_64x6_2x1_2cta_v_bz_TNT
		nvjet_sm103_qqtst_128x64_128x6_4x1_v_bz_Avec32UE8M0_Bvec32UE8M0_TNT
		ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn
		void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8>
		cutlass3x_sm100_tensorop_s128x128x16gemm_bf16_bf16_f32_bf16_bf16_128x128x64_1x1x1_0_tnn_align8
		void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>>>
		void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>
		void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, float>
		void gemvNSP_kernel<__nv_bfloat16, 1, 32, 4, 1024>
		void gemvx::kernel<int, int, __nv_bfloat16>
		void dot_kernel<float, 128, 0>
		void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 4096u, 7168u, 1u, 128u, 112u, 128u, 8u, 132u, (deep_gemm::GemmType)0, cutlass::bfloat16_t>
		void deep_gemm::sm100_fp8_gemm_1d1d_impl<(cute::UMMA::Major)0, 128u, (deep_gemm::GemmType)0>
		void marlin::Marlin<1125899906842624l, 256, 1, 8, 8>
		void machete::MacheteKernel<cutlass::half_t>
		_w8a8_triton_block_scaled_mm
		_w8a8_block_fp8_matmul
		awq_gemm_kernel
		triton_tem_fused_mm_3
		triton_tem_fused__to_copy_addmm_t_7
		cudnn_generated_fort_native_matmul_sm90_knob_3
		gemm_Bfloat16_E2m1E2m1_Fp32_t128x8x512_s6_et128x8_m128x8x64_cga1x1x1_16dp256b_TN_transOut_schedS_sm100f
		bmm_Bfloat16_E4m3E4m3_Fp32_t128x64x128_s5_et128x64_m128x64x32_cga1x1x1_TN_schedS_sm100f
		_lora_shrink_kernel
		Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x128x64
		Cijk_Ailk_Bljk_HHS_BH_MT64x64x32
		Custom_Cijk_Alik_Bjlk_F8BS_BH
		void wvSplitK_hf_sml_<__hip_bfloat16, 64, 2, 16, 8, 2, 1>
		void wvSplitKQ_hf_sml_<__hip_bfloat16, c10::Float8_e4m3fnuz>
		LLGemm1_kernel
		_ZN7ck_tile6kentryILi1ENS_12FlatmmKernelINS_
		void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm>
		f4gemm_bf16_per1x32Fp4_BpreShuffle_128x512
		bf16gemm_fp32bf16_tn_96x64_splitk_clean
		_gemm_a16_w16_kernel_BLOCK_SIZE_M_16
		_C::onednn_mm`,
	MoE: `
		_permute_kernel
		_unpermute_kernel
		_sort_chunks_by_map_kernel
		fused_moe_kernel
		fused_moe_kernel_gptq_awq
		void vllm::moe::topkGatingSoftmax<8, 128, 4, 16>
		void vllm::moe::moe_align_block_size_kernel<int>
		void vllm::moe::count_and_sort_expert_tokens_kernel<int>
		void vllm::moe::grouped_topk_fused_kernel<float>
		void vllm::moe::topk_with_k2_kernel<float, int>
		void vllm::moe_sum_kernel<c10::BFloat16, 8>
		void marlin_moe_wna16::Marlin<1125899906842624l, 256, 1, 8, 8>
		_matmul_ogs_NNT_bf16xbf16xmxfp4_128x256x64x1_swiglu
		_p_matmul_ogs_NNT_fp8xfp8
		_topk_forward
		_combined_routing_compute
		_sum_bitmatrix_rows
		_reduce_grouped
		_expt_data_compute
		_fwd_kernel_ep_scatter_1
		_fwd_kernel_ep_gather
		void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 4096u, 7168u, 32u, 128u, 112u, 128u, 8u, 132u, (deep_gemm::GemmType)1, cutlass::bfloat16_t>
		void deep_gemm::sm100_fp8_gemm_1d1d_impl<(cute::UMMA::Major)0, 128u, (deep_gemm::GemmType)2>
		void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<cute::tuple<int, int, int>>>>
		bmm_E2m1_E2m1E2m1_Fp32_bA16_bB16_bC16_t128x8x512_s5_et128x8_m128x8x64_cga1x1x1_16dp256b_TN_transOut_schedS_bN_ldgsts_tmaOpt_clmp_swiGlu_dynBatch_sm100f
		bmm_Bfloat16_E2m1E2m1_Fp32_Ab16_Bb16tokFp32_t128x8x512_s5_et128x8_m128x8x64_c1x1x1_rM_TN_transOut_schPd2x1x2x3_biasFp32M_bN_rgTma_clmp_dynB_sm100f
		void moe::dev::routing::routingRenormalize::routingIndicesClusterKernel<moe::dev::routing::KernelParams>
		void moe::dev::finalize::finalizeKernelVecLoad<moe::dev::finalize::KernelParams>
		void tensorrt_llm::kernels::cutlass_kernels::expandInputRowsKernel<__nv_bfloat16>
		void tensorrt_llm::kernels::cutlass_kernels::doActivationKernel<__nv_bfloat16>
		tensorrt_llm::kernels::cutlass_kernels::computeStridesTmaWarpSpecializedKernel
		void tensorrt_llm::kernels::cutlass_kernels::finalizeMoeRoutingKernel<__nv_bfloat16>
		void ck::kernel_moe_mxgemm_2lds<ck::GridwiseMoeGemmMX>
		_ZN7ck_tile6kentryILi1ENS_16MoeSortingKernelINS_
		aiter::fmoe_bf16_blockscaleFp8_g1u1_vs_silu_1tg_32x256
		void aiter::grouped_topk_opt_sort_kernel<__hip_bfloat16>
		_fused_append_shared_experts_kernel
		ep_moe_pre_reorder_triton_kernel`,
	Communication: `
		ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)
		ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)
		ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)
		ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16(ncclSymkDevWorkArgs4K)
		ncclSymDevKernel_AllGather_STMC(ncclSymDevArgs)
		void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>
		void aiter::cross_device_reduce_2stage_naive<__hip_bfloat16, 8>
		void aiter::allreduce_fusion_kernel_1stage<__hip_bfloat16>
		void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(flashinfer::trtllm_allreduce_fusion::AllReduceFusionPattern)1>
		void moefinalize_allreduce_fusion_kernel_oneshot_lamport<8>
		void tensorrt_llm::kernels::ar_fusion::allreduce_fusion_kernel_twoshot_sync
		twoshotAllreduceKernel
		multimem_all_reduce_kernel
		void quickreduce::allreduce_prototype_twoshot<quickreduce::CodecFP>
		void deep_ep::internode_ll::dispatch<true, false, 7168>
		void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>
		nvshmemi_transfer_amo_nonfetch
		void mscclpp::allreduce7<half>
		moeA2ADispatchKernel
		void moeA2ACombineKernel<8>
		mscclKernel_Sum_half_Simple
		c10d::allreduce_`,
	KVCache: `
		void fastertransformer::transpose4dBatchMajorKVCache<__half, __half, fastertransformer::KVBlockArray>
		void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16>
		reshape_and_cache_kernel_flash
		void vllm::concat_and_cache_mla_kernel<unsigned short, unsigned char>
		void vllm::indexer_k_quant_and_cache_kernel<__nv_bfloat16>
		void vllm::cp_gather_indexer_k_quant_cache_kernel<8>
		set_mla_kv_buffer_kernel
		void store_kv_cache_256x1
		create_flashinfer_kv_indices_triton
		write_req_to_token_pool_triton
		void tensorrt_llm::kernels::applyBiasRopeUpdateKVCacheV2<__nv_bfloat16>
		void tensorrt_llm::kernels::updateKVCacheForXqaKernel
		void lmc::single_layer_kv_transfer_kernel<long>
		void vllm::copy_blocks_kernel<__nv_bfloat16>`,
	Norm: `
		void at::native::(anonymous namespace)::cuComputeGradInput
		void rtp_llm::generalRmsNorm<__half2, false, false, true, false, signed char>
		void vllm::rms_norm_kernel<c10::BFloat16, 8>
		void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>
		void vllm::rms_norm_static_fp8_quant_kernel<c10::BFloat16>
		triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0
		triton_red_fused_add_rms_norm
		void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>
		void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>
		void tensorrt_llm::kernels::generalRmsNorm<__nv_bfloat16>
		_fused_rms_fp8_group_quant_kernel
		aiter::add_rmsnorm_quant_kernel
		_layer_norm_fwd_1pass_kernel
		rms_norm_fwd_kernel
		l2norm_fwd_kernel
		_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassINS_27
		void cudnn::bn_fw_tr_1C11_kernel_NCHW`,
	Rotary: `
		void rtp_llm::add_fusedQKV_bias_transpose_kernel<__half, __half, false, false, (rtp_llm::RopeStyle)1>
		void vllm::rotary_embedding_kernel<c10::BFloat16, true>
		_triton_mrope_forward
		void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheKernel<false, 64u>
		fused_qk_norm_rope_kernel
		void aiter::kn_entry_2c_sbhd_cached_indirect_inplace<aiter::OpCachedFwd>
		_fused_qk_rope_cosine_cache_llama_kernel`,
	Quantisation: `
		void fbgemm_gpu::(anonymous namespace)::_compute_FP8_quantize_cuda_kernel<float>
		fast_hadamard_transform_kernel
		void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16>
		void per_token_group_quant_8bit_kernel<__nv_bfloat16>
		_per_token_group_quant_fp8_colmajor
		void vllm::cvt_fp16_to_fp4<__nv_bfloat16>
		void vllm::dynamic_per_token_scaled_fp8_quant_kernel<c10::BFloat16>
		void quantize_with_block_size<(tensorrt_llm::BlockScaleQuantizationType)0>
		void deep_gemm::transpose_and_pack_fp32_into_ue8m0<512u, 48u, 56u>
		void per_tensor_absmax_kernel<__nv_bfloat16>
		block_scale_interleave_kernel
		_dynamic_mxfp4_quant_kernel`,
	Activation: `
		void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel, true>
		void vllm::silu_mul_fp8_quant_deep_gemm_kernel<8>
		_silu_mul_fp8_quant_deep_gemm
		triton_poi_fused_mul_silu_slice_1
		void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16>`,
	Sampling: `
		fastertransformer::topPInitialize(int*, int*, int*, int, int)
		fastertransformer::curandInitialize(curandStateXORWOW*, int, unsigned long long)
		void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u>
		_topk_topp_kernel
		void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>
		void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<at_cuda_detail::cub::DeviceRadixSortPolicy>
		void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>>>
		void at::native::tensor_kernel_scan_innermost_dim<float, std::plus<float>>
		void vllm::apply_repetition_penalties_kernel<float>
		apply_token_bitmask_inplace_kernel
		_gumbel_sample_kernel
		_min_p_kernel
		rejection_greedy_sample_kernel
		void VerifyTreeGreedy<long, long>
		void build_tree_efficient<long>`,
	Convolution: `
		cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1
		sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc
		void implicit_convolve_sgemm<float, float, 1024, 5, 5>
		void cutlass::device_kernel<cutlass::conv::kernel::ConvUniversal<cutlass::conv::ConvProblemShape>>`,
	Embedding: `
		void fbgemm_gpu::permute_2D_data_kernel<false, int, int>
		k_get_rows_float<float, float>
		void rtp_llm::lookupHiddenStateOfLastToken<__half>
		void at::native::(anonymous namespace)::vectorized_gather_kernel<16, long>
		void at::native::(anonymous namespace)::indexSelectSmallIndex<c10::BFloat16>`,
	Elementwise: `
		void rtp_llm::addBiasResidual<__half, 1, __half>
		kOptimizerStatic8bit2State
		void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>
		void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda>>
		void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::OpaqueType<2u>>
		triton_poi_fused_0
		void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float>
		_compute_slot_mapping_kernel
		void at_cuda_detail::cub::DeviceSelectSweepKernel<at_cuda_detail::cub::DispatchSelectIf>
		_prepare_pos_seq_lens_kernel
		void at::native::(anonymous namespace)::upsample_bilinear2d_out_frame<float>`,
	Copies: `
		Memcpy DtoH (Device -> Pinned)
		Memset (Device)
		__amd_rocclr_copyBuffer
		__amd_rocclr_fillBufferAligned`,
	Other: `
		something`,
}

func TestGroupOf(t *testing.T) {
	for want, list := range names {
		for name := range strings.SplitSeq(strings.TrimSpace(list), "\n") {
			name = strings.TrimSpace(name)
			if got := MeaningOf(name).Group; got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	}
	if got := MeaningOf("").Group; got != Other {
		t.Errorf("no name: %s", got)
	}
}

// TestRules holds the table to its form: words have no capitals, underscores or spaces, and
// every row has a source.
func TestRules(t *testing.T) {
	for _, r := range rules() {
		for _, w := range r.words {
			if w != strings.ToLower(strings.ReplaceAll(w, "_", "")) || len(strings.Trim(w, "^*")) < 2 {
				t.Errorf("%s: %q", r.Group, w)
			}
		}
		if len(r.words) == 0 || r.source == "" || r.Group == Groups && r.Library == "" {
			t.Errorf("%+v", r)
		}
	}
}
