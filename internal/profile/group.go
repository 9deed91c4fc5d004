package profile

import "strings"

// A Group is what a kernel is for.
type Group uint8

// The groups, in the order in which they are shown.
const (
	Attention Group = iota
	GEMM
	MoE
	Norm
	Activation
	Rotary
	KVCache
	Quantisation
	Sampling
	Embedding
	Convolution
	Elementwise
	Other
	Communication
	Copies
	Groups // how many there are
)

var groupNames = [Groups]string{
	"attention", "GEMM", "MoE", "normalisation", "activation", "rotary embedding", "KV cache", "quantisation", "sampling", "embedding",
	"convolution", "elementwise", "other", "communication", "copies",
}

func (g Group) String() string {
	if g < Groups {
		return groupNames[g]
	}
	return "unknown"
}

// Rule says that a name with one of the words belongs to a group.
type Rule struct {
	Group Group
	Words []string // in lower case
}

// Rules is the table by which names of kernels and operators are told apart: the first
// rule with a word that the name holds, in lower case and without underscores and
// spaces, decides. docs/profile.md shows it.
var Rules = []Rule{
	{Communication, []string{"nccldevkernel", "ncclkernel", "nccl:", "ncclsend", "ncclrecv", "rccl", "allreduce", "allgather", "reducescatter", "alltoall", "sendrecv", "crossdevicereduce", "multimemallreduce", "twoshot", "oneshot", "nvshmem", "deepep", "gloo:", "c10d::", "quickreduce"}},
	{KVCache, []string{"reshapeandcache", "concatandcache", "kvcacheupdate", "copyblocks", "swapblocks", "gathercache", "gatherandmaybedequantcache", "cpgathercache", "pagedkvcacheappend", "appendpagedkv", "writepage", "indexerkquantandcache"}},
	{MoE, []string{"fusedmoe", "moe", "topkgating", "expert", "combinedrouting", "matmulogs", "groupedtopk", "grouptopk", "bitmatrix", "finalizematmulscatter", "groupgemm", "groupedgemm", "permuteunpermute", "topkforward", "topksoftmax"}},
	{Attention, []string{"flashfwd", "flashattn", "flashsplitkv", "flashbwd", "flashmla", "mha", "xqa", "mqalogits", "attention", "attn", "pagedkv", "batchdecodewith", "batchprefillwith", "mlareduce", "mladecode", "reducesegments", "mergeattnstates", "mergestates", "splitkvreduce", "scaleddotproduct", "unifiedattn", "flashdecoding", "ssmscan", "selectivescan", "chunkscan", "causalconv1d", "gateddelta", "chunkgated", "recurrentgated"}},
	{Sampling, []string{"sampl", "topktopp", "topkmask", "toppmask", "multinomial", "argmax", "gumbel", "penalt", "softmaxforward", "logsoftmax", "radixsort", "bitonicsort", "sortpairs", "segmentedsort", "devicesegmentedradix", "topk", "cumsum", "devicescan", "exponential", "rejection", "bincount", "aten::sort", "logprob", "temperature", "randperm", "distributionelementwise"}},
	{Norm, []string{"rmsnorm", "layernorm", "groupnorm", "batchnorm", "bnfw", "bnbw", "fusedaddrms", "rms2d", "rsqrt", "normalization", "normkernel", "aten::nativelayernorm"}},
	{Rotary, []string{"rotary", "rope", "mrope"}},
	{Convolution, []string{"convolution", "conv1d", "conv2d", "conv3d", "implicitconv", "wgrad", "dgrad", "winograd", "cudnn", "implicitgemm", "fprop", "nchwtonhwc", "nhwctonchw", "pool2d", "maxpool", "avgpool"}},
	{GEMM, []string{"gemm", "gemv", "matmul", "cijkalikbljk", "cijkailk", "nvjet", "cublas", "splitk", "wgmma", "marlin", "machete", "exllama", "bitblas", "deepgemm", "aten::mm", "aten::bmm", "aten::addmm", "aten::linear", "aten::scaledmm", "aten::baddbmm", "mkldnnlinear", "onednn", "cutlass", "hipblas", "tensorop", "dotkernel", "scaledmm", "gemvx", "lmhead", "mkllinear", "trinity", "sgmv", "bgmv", "lora"}},
	{Quantisation, []string{"quant", "scaledfp8", "fp8scale", "dequant", "pertokengroup", "castfp8", "mxfp4pack", "scaledfp4"}},
	{Activation, []string{"actandmul", "silu", "gelu", "swiglu", "swish", "relu", "threshold", "launchclampscalar", "tanh", "sigmoid"}},
	{Embedding, []string{"embedding", "indexselect", "vectorizedgather", "gatherkernel"}},
	{Copies, []string{"memcpy", "memset", "aten::copy", "aten::tocopy", "aten::clone"}},
	{Elementwise, []string{"elementwise", "reducekernel", "catarray", "tritonpoi", "tritonred", "tritonper", "fill", "copykernel", "indexkernel", "scatter", "gather", "arange", "aten::", "triton", "softmax", "transpose", "multitensorapply", "nestedtensor", "computeslot", "slotmapping"}},
}

var squeeze = strings.NewReplacer("_", "", " ", "")

// GroupOf says what a kernel or an operator is for, from its name.
func GroupOf(name string) Group {
	if len(name) > 400 {
		name = name[:400] // of a C++ template the rest is types
	}
	n := squeeze.Replace(strings.ToLower(name))
	for i := range Rules {
		for _, w := range Rules[i].Words {
			if strings.Contains(n, w) {
				return Rules[i].Group
			}
		}
	}
	return Other
}

// vague reports whether a kernel's name says how it computes and not what for: what
// launched it may tell more.
func vague(g Group) bool {
	return g == Elementwise || g == Other || g == GEMM || g == Embedding || g == Sampling
}

// purpose is a group that an operator gives to the kernels below it, or false: only
// those that say what for.
func purpose(operator string) (Group, bool) {
	switch g := GroupOf(operator); g {
	case Attention, MoE, Norm, Rotary, KVCache, Quantisation, Sampling, Activation:
		return g, true
	}
	return Other, false
}

// tidy shortens a kernel's name to what tells it apart: without its arguments, and
// without the namespaces and templates that all of PyTorch's have.
func tidy(name string) string {
	if strings.Contains(name, ".py(") || strings.HasPrefix(name, "<") || strings.HasPrefix(name, "nn.Module") {
		return name // a Python function
	}
	s := strings.TrimPrefix(name, "void ")
	s = strings.NewReplacer("(anonymous namespace)::", "", "<unnamed>::", "", "at::native::", "", "c10::", "", "void ", "").Replace(s)
	depth := 0
	for i, c := range s {
		switch c {
		case '<':
			depth++
		case '>':
			depth--
		case '(':
			if depth == 0 && i > 0 && !strings.HasPrefix(s, "Mem") && !strings.HasPrefix(s, "operator") {
				s = s[:i]
				return inner(s)
			}
		}
	}
	return inner(s)
}

// inner names an elementwise kernel after the function in its template.
func inner(s string) string {
	i := strings.IndexByte(s, '<')
	if i < 0 {
		return s
	}
	head, rest := s[:i], s[i+1:]
	if !strings.Contains(head, "elementwise") && !strings.Contains(head, "reduce_kernel") {
		return s
	}
	for _, word := range strings.FieldsFunc(rest, func(c rune) bool { return strings.ContainsRune("<>,()&*{} #", c) }) {
		switch {
		case len(word) < 5, strings.HasPrefix(word, "gpu_kernel_impl"), strings.HasPrefix(word, "std::"), word == "Array", strings.HasPrefix(word, "at::detail"),
			word == "BinaryFunctor", word == "AUnaryFunctor", word == "BUnaryFunctor", word == "float", word == "BFloat16", word == "double", word == "unsigned", word == "bfloat16",
			word == "ReduceOp", word == "at::TensorIteratorBase", word == "TensorIteratorBase", word == "unroll_factor":
			continue
		}
		if j := strings.LastIndex(word, "::"); j >= 0 {
			word = word[j+2:]
		}
		return head + "<" + word + ">"
	}
	return head
}
