package finding

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/profile"
)

// op adds an operator that launches kernels, which run one after another.
func op(name string, kernels ...kernel) func(*maker) {
	return func(m *maker) { m.op(name, kernels...) }
}

func (m *maker) op(name string, kernels ...kernel) {
	m.call(profile.Op, name, m.end-5, 4, 0)
	for _, k := range kernels {
		m.kernel(k.name, m.end-4, m.end, k.dur, false)
		m.end += k.dur + 1
	}
}

const (
	product = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128"
	softmax = "void (anonymous namespace)::cunn_SoftMaxForward<4, c10::BFloat16, float, c10::BFloat16>"
)

// TestTracesThatWereMisread has simplified traces for which an earlier release gave another answer than a performance
// engineer does.
func TestTracesThatWereMisread(t *testing.T) {
	for name, tc := range map[string]struct {
		make   func(m *maker)
		lead   string   // the first finding
		says   string   // a part of its summary, reasons or fixes
		silent []string // in none of them
	}{
		"expert parallelism of DeepSeek communicates": {repeat(30,
			op("moe", kernel{"void cutlass::device_kernel<dpsk::grouped_gemm::cuda::GemmKernel>", 500}),
			op("", kernel{"void dpsk::ep::internode::combine<false, 8, __nv_bfloat16, 8, 2, 16, 24>(int4*, float*)", 500}),
		), "communication-bound", "all ranks", nil},
		"softmax between products is attention": {repeat(20,
			op("aten::addmm", kernel{product, 100}),
			op("aten::bmm", kernel{product, 300}),
			op("aten::mul", kernel{"vectorized_elementwise_kernel", 50}),
			op("aten::_softmax", kernel{softmax, 600}),
			op("aten::bmm", kernel{product, 300}),
		), "attention-bound", "scaled_dot_product_attention", []string{"ampl", "FlashInfer"}},
		"softmax of a classifier is no attention": {repeat(20,
			op("aten::bmm", kernel{product, 300}),
			op("aten::addmm", kernel{product, 300}),
			op("aten::_softmax", kernel{softmax, 100}),
			op("aten::bmm", kernel{product, 300}),
		), "gemm-bound", "", nil},
		"a product of Composable Kernel is no rotary embedding": {repeat(100,
			op("", kernel{"void ck::tensor_operation::device::kernel_gemm_xdlops_v2r3<ck::GridwiseGemm_k0mk1_k0nk1>", 80}),
		), "gemm-bound", "", nil},
		"MIOpen's products are convolution": {repeat(100,
			op("aten::miopen_convolution", kernel{"igemm_fwd_gtcx2_nhwc_bf16_bx0_ex1_bt256x128x16", 80}, kernel{"SubTensorOpWithScalar1d", 10}),
		), "convolution-bound", "channels_last", nil},
		"the sort of an embedding's gradient is no sampling": {repeat(50,
			op("aten::embedding_dense_backward", kernel{"void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<Policy>", 90}),
			op("aten::mm", kernel{product, 200}),
		), "gemm-bound", "", nil},
		"one first use does not recur": {func(m *maker) {
			for i := range 600 {
				m.op("aten::mm", kernel{product, 50})
				if i == 100 {
					m.corr++
					m.call(profile.Runtime, "cudaLaunchKernel", m.end, 500_000, m.corr)
					m.end += 500_000
					m.AddActivity(0, 0, 7, profile.Kernel, profile.Event{Start: 1000 * m.end, Dur: 50_000, Name: 1,
						Correlation: m.corr})
					m.end += 60
				}
			}
		}, "one-time", "98", []string{"raphs", "waits for its host"}},
		"one delayed start does not recur": {func(m *maker) {
			for i := range 600 {
				if i == 100 {
					m.kernel(product, m.end, m.end+463_000, 50, false)
					m.end += 463_060
				}
				m.op("aten::mm", kernel{product, 50})
			}
		}, "one-time", "98", []string{"raphs", "waits for its host"}},
		"one blocking copy does not recur": {func(m *maker) {
			for i := range 600 {
				if i == 100 {
					m.corr++
					m.call(profile.Runtime, "hipMemcpyWithStream", m.end, 493_000, m.corr)
					m.end += 493_000
				}
				m.op("aten::mm", kernel{product, 50})
			}
		}, "one-time", "98", []string{"raphs", "launches", "waits for its host"}},
		"the host computes in every gap": {func(m *maker) {
			for range 9 {
				m.call(profile.Python, "model/image_processing.py(301): resize", m.end, 60_000, 0)
				m.end += 60_100
				for range 100 {
					m.op("aten::mm", kernel{product, 500})
				}
			}
		}, "host-work", "image_processing.py(301): resize", []string{"raphs", "nothing to do"}},
		"data that is loaded": {func(m *maker) {
			for range 8 {
				m.call(profile.Annotation, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", m.end, 60_000, 0)
				for i := range int64(60) {
					m.call(profile.Op, "aten::stack", m.end+1000*i, 900, 0)
				}
				m.end += 60_100
				for range 100 {
					m.op("aten::mm", kernel{product, 500})
				}
			}
		}, "data-loading", "num_workers", []string{"raphs"}},
		"a loader that stalls at every fourth batch": {func(m *maker) {
			for i := range 30 {
				m.call(profile.Annotation, fmt.Sprintf("ProfilerStep#%d", i), m.end, 100_000, 0)
				if i%4 == 1 {
					m.call(profile.Annotation, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", m.end+10, 400_000, 0)
					m.end += 400_100
				}
				for range 20 {
					m.op("aten::mm", kernel{product, 7000})
				}
			}
		}, "data-loading", "num_workers", []string{"once"}},
		"a warm-up of some steps does not recur": {func(m *maker) {
			for i := range 40 {
				m.call(profile.Annotation, fmt.Sprintf("ProfilerStep#%d", i), m.end, 1000, 0)
				if i > 0 && i < 5 {
					m.call(profile.Python, "train.py(10): prepare", m.end+10, 400_000, 0)
					m.end += 400_100
				}
				for range 20 {
					m.op("aten::mm", kernel{product, 2000})
				}
			}
		}, "one-time", "", nil},
		"training is no server": {func(m *maker) {
			for i := range 20 {
				m.call(profile.Annotation, fmt.Sprintf("ProfilerStep#%d", i), m.end, 3000, 0)
				m.call(profile.Annotation, "Optimizer.step#AdamW.step", m.end+2500, 100, 0)
				m.op("autograd::engine::evaluate_function: AddmmBackward0", kernel{product, 1000}, kernel{"ncclDevKernel_AllReduce_Sum_f32_RING_LL", 900})
				m.op("aten::mm", kernel{product, 1000})
			}
		}, "communication-bound", "bucket", []string{"KV cache", "first token", "replica", "tensor-parallel"}},
		"copies within a GPU are no offloading": {repeat(200,
			op("aten::mm", kernel{product, 80}),
			op("aten::clone", kernel{"Memcpy DtoD (Device -> Device)", 20}),
		), "copies-bound", "clone()", []string{"ffload"}},
		"a graph that is captured": {func(m *maker) {
			m.call(profile.Runtime, "cudaStreamBeginCapture", m.end, 5, 0)
			for range 400 {
				m.corr++
				m.call(profile.Runtime, "cudaLaunchKernel", m.end, 5, m.corr)
				m.end += 100
			}
			m.call(profile.Runtime, "cudaStreamEndCapture", m.end, 5, 0)
			m.end += 100
			m.op("aten::mm", kernel{product, 50})
		}, "graph-capture", "captured", []string{"eager"}},
		"small kernels of a busy GPU need no graphs": {repeat(600,
			op("aten::mm", kernel{product, 300}),
			op("aten::add", kernel{"vectorized_elementwise_kernel", 5}, kernel{"vectorized_elementwise_kernel", 5}),
		), "gemm-bound", "", []string{"raphs"}},
		"one kernel":                 {func(m *maker) { m.op("aten::add", kernel{"vectorized_elementwise_kernel", 2}) }, "cannot-tell", "1 kernels and copies", nil},
		"few kernels, and long ones": {repeat(6, op("aten::mm", kernel{product, 15_000})), "gemm-bound", "", nil},
		"a CPU's trace with one kernel": {func(m *maker) {
			for range 1000 {
				m.call(profile.Op, "aten::mm", m.end, 900, 0)
				m.end += 1000
			}
			m.op("aten::add", kernel{"vectorized_elementwise_kernel", 900})
		}, "cannot-tell", "", []string{"lementwise"}},
		"a model on the CPU": {func(m *maker) {
			for range 100 {
				m.call(profile.Op, "aten::conv2d", m.end, 900, 0)
				m.call(profile.Op, "aten::mkldnn_convolution", m.end+10, 800, 0)
				m.call(profile.Op, "aten::relu", m.end+900, 100, 0)
				m.end += 1000
			}
		}, "cpu-only", "aten::conv2d 90 %, aten::relu 10 %", []string{"ProfilerActivity", "mkldnn"}},
		"a loop on the CPU that loads data": {func(m *maker) {
			for i := range 20 {
				m.call(profile.Annotation, fmt.Sprintf("ProfilerStep#%d", i), m.end, 10_000, 0)
				m.call(profile.Annotation, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", m.end, 9000, 0)
				m.call(profile.Op, "aten::stack", m.end+10, 500, 0)
				m.call(profile.Op, "aten::mm", m.end+9000, 1000, 0)
				m.end += 10_000
			}
		}, "cpu-only", "DataLoader(num_workers", []string{"ProfilerActivity.CUDA", "aten::stack", "ProfilerStep"}},
		"an MTIA accelerator": {func(m *maker) {
			m.call(profile.Runtime, "runFunction - job_prep_and_submit_for_execution", m.end, 900, 0)
			m.call(profile.Op, "aten::mm", m.end+1000, 900, 0)
		}, "cpu-only", "MTIA", []string{"CUDA"}},
		"the kernels of an idle GPU are not worth a change": {func(m *maker) {
			for range 400 {
				m.op("aten::add", kernel{"vectorized_elementwise_kernel", 30})
				m.corr += 1000
				m.call(profile.Runtime, "cudaDeviceSynchronize", m.end, 970, 0)
				m.end += 970
			}
		}, "synchronising", "", []string{"lementwise"}},
		"missing launches come first if they cost the most": {func(m *maker) {
			for range 100 {
				for range 10 {
					m.op("aten::add", kernel{"vectorized_elementwise_kernel", 50})
				}
				m.corr++
				m.end += 2000
				m.AddActivity(0, 0, 7, profile.Kernel, profile.Event{Start: 1000 * m.end, Dur: 30_000, Name: 1,
					Correlation: 1 << 30})
				m.end += 40
			}
		}, "launch-unknown", "", []string{"lementwise"}},
		"cuDNN is not for AMD's GPUs": {func(m *maker) {
			m.call(profile.Runtime, "hipLaunchKernel", m.end-100, 5, 1<<20)
			for range 50 {
				m.op("", kernel{"_ZN7ck_tile6kentryILi2ENS_13FmhaFwdKernelI", 900})
			}
		}, "attention-bound", "AITER", []string{"cuDNN"}},
		"one all-reduce that waits is no evidence": {func(m *maker) {
			m.op("aten::mm", kernel{product, 5}, kernel{product, 5})
			m.op("", kernel{"ncclDevKernel_AllReduce_Sum_f32_RING_LL", 30_000})
		}, "cannot-tell", "3 kernels", []string{"ommunication"}},
		"an exchange of embeddings has no buckets": {repeat(20,
			op("autograd::engine::evaluate_function: AddmmBackward0", kernel{product, 1000}),
			op("c10d::alltoall_base_", kernel{"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", 900}),
			op("autograd::engine::evaluate_function: AddmmBackward0", kernel{"ncclDevKernel_AllReduce_Sum_f32_RING_LL", 300}),
		), "communication-bound", "Overlap the all-to-all", []string{"bucket", "FSDP", "KV cache"}},
		"products in FP32 leave the tensor cores idle": {repeat(100,
			op("aten::addmm", kernel{"ampere_sgemm_128x64_tn", 500}),
		), "gemm-bound", "set_float32_matmul_precision", []string{"FP8", "INT8", "healthy"}},
		"products in FP32 cost more than the first use of code": {func(m *maker) {
			for range 20 {
				m.op("aten::addmm", kernel{"ampere_sgemm_128x64_tn", 7000})
				m.corr++
				m.call(profile.Runtime, "cudaLaunchKernel", m.end, 1500, m.corr)
				m.end += 1500
				m.AddActivity(0, 0, 7, profile.Kernel, profile.Event{Start: 1000 * m.end, Dur: 50_000, Name: 1,
					Correlation: m.corr})
				m.end += 60
			}
		}, "gemm-bound", "set_float32_matmul_precision", nil},
		"products in TF32 use the tensor cores": {repeat(100,
			op("aten::addmm", kernel{"void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>", 500}),
		), "gemm-bound", "healthy", []string{"set_float32_matmul_precision"}},
		"activations count as elementwise": {repeat(100,
			op("aten::cudnn_convolution", kernel{"ampere_scudnn_128x32_relu_small_nn_v1", 600}),
			op("aten::add", kernel{"vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>", 200}),
			op("aten::relu", kernel{"vectorized_elementwise_kernel<4, launch_clamp_scalar(at::TensorIteratorBase&)>", 200}),
		), "elementwise-bound", "torch.compile", nil},
		"kernels that a compiler fused need no fusion": {repeat(100,
			op("aten::mm", kernel{product, 620}),
			op("Torch-Compiled Region", kernel{"triton_poi_fused_add_mul_3", 380}),
		), "gemm-bound", "", []string{"lementwise", "torch.compile"}},
		"launches whose kernels were not recorded": {func(m *maker) {
			for range 1200 {
				m.corr++
				m.call(profile.Op, "aten::mm", m.end, 30, 0)
				m.call(profile.Runtime, "cudaLaunchKernel", m.end+10, 5, m.corr)
				m.end += 100
			}
		}, "cpu-only", "launched 1,200 kernels", []string{"ran on the CPU", "There is no GPU"}},
		"a file that ends before the device's activities": {func(m *maker) {
			m.Truncated = true
			m.call(profile.Op, "aten::mm", m.end, 900, 0)
		}, "cpu-only", "the file is cut off", []string{"ProfilerActivity"}},
		"ranges of Nsight Systems alone": {func(m *maker) {
			m.Tool = "Nsight Systems 2024.1"
			m.call(profile.Annotation, "find_centers", m.end, 900, 0)
		}, "cpu-only", "nsys profile --trace=cuda", []string{"ProfilerActivity"}},
		"a GPU that works at the end": {func(m *maker) {
			for range 900 {
				m.call(profile.Op, "aten::mm", m.end, 9000, 0)
				m.end += 10_000
			}
			for range 20 {
				m.op("aten::mm", kernel{product, 50})
			}
		}, "gpu-unused", "of the recorded 9 s", []string{"98"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &maker{Timeline: profile.New(name, "test", 0), end: 1000}
			tc.make(m)
			m.Close()
			v := Judge(profile.Combine([]*profile.Analysis{profile.Analyze(m.Timeline)}), nil)
			f := v.Leading()
			if f == nil {
				t.Fatal("nothing was found")
			}
			text := strings.Join(append([]string{f.Summary}, f.Reasons...), " ")
			for _, x := range f.Fixes {
				text += " " + x.Summary + x.Args() + x.Tradeoff
			}
			if f.Kind.ID != tc.lead || !strings.Contains(text, tc.says) {
				t.Errorf("%s: %s; want %s with %q", f.Kind.ID, text, tc.lead, tc.says)
			}
			for _, s := range tc.silent {
				if strings.Contains(text, s) {
					t.Errorf("%q is in: %s", s, text)
				}
			}
		})
	}
}

// TestTheStragglerComesBeforeCommunication has a rank that is slower from its fifth step on. The others wait for it in
// communication.
func TestTheStragglerComesBeforeCommunication(t *testing.T) {
	for name, tc := range map[string]struct {
		slow       int64 // µs that each of the rank's products takes longer
		late       int64 // µs that the rank's host is late before each step
		lead, says string
	}{
		"kernels":    {900, 0, "rank-straggles", "GEMM kernels take"},
		"host":       {0, 9000, "rank-straggles", "host"},
		"none waits": {0, 0, "communication-bound", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var ranks []*profile.Analysis
			for rank := range 4 {
				m := &maker{Timeline: profile.New(name, "test", 0), end: 1000}
				m.Rank = rank
				for i := range int64(20) {
					slow, late := int64(0), int64(0)
					if i >= 5 {
						slow, late = tc.slow, tc.late
					}
					wait := 10*slow + late
					if rank == 2 {
						m.end, wait = m.end+late, 0
					} else {
						slow = 0
					}
					m.call(profile.Annotation, fmt.Sprintf("ProfilerStep#%d", i), m.end-8, 12_000, 0)
					for range 10 {
						m.op("aten::mm", kernel{product, 1000 + slow})
					}
					m.op("", kernel{"ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 3000 + wait})
				}
				m.Close()
				ranks = append(ranks, profile.Analyze(m.Timeline))
			}
			p := profile.Combine(ranks)
			v := Judge(p, nil)
			f := v.Leading()
			text := strings.Join(append([]string{f.Summary}, f.Reasons...), " ")
			if f.Kind.ID != tc.lead || !strings.Contains(text, tc.says) {
				t.Errorf("%s: %s; %+v", f.Kind.ID, text, p.Stragglers)
			}
			if tc.says != "" && (p.Stragglers.Last != "rank 2, GPU 0" || p.Stragglers.Since != 5) {
				t.Errorf("%+v", p.Stragglers)
			}
		})
	}
}
