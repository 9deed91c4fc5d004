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

// Rule says that a name with one of the words belongs to a group. A word after ^ is one
// that the name begins with.
type Rule struct {
	Group Group
	Words []string // in lower case
}

// Rules is the table by which names of kernels and operators are told apart: the first
// rule with a word that the name holds, in lower case and without underscores and
// spaces, decides. docs/profile.md shows it.
var Rules = []Rule{
	{Communication, []string{"nccl", "rccl", "msccl", "oneccl", "allreduce", "allgather", "reducescatter", "alltoall", "moea2a", "sendrecv", "crossdevicereduce", "arfusion", "lamport", "userbuffers", "twoshot", "oneshot", "nvshmem", "rocshmem", "deepep", "pplx", "gloo:", "c10d::", "quickreduce"}},
	{KVCache, []string{"reshapeandcache", "concatandcache", "kvcacheupdate", "updatekvcache", "copyblocks", "swapblocks", "gathercache", "gatherandmaybedequantcache", "cpgather", "pagedkvcacheappend", "appendpagedkv", "writepage", "indexerkquantandcache", "kvbuffer", "storekvcache", "storecache", "kvindices", "reqtotoken", "kvtransfer", "loadandreshape"}},
	{MoE, []string{"fusedmoe", "moe", "topkgating", "expert", "exptdata", "combinedrouting", "matmulogs", "groupedtopk", "grouptopk", "groupidxandtopk", "topkwithk2", "bitmatrix", "reducegrouped", "finalizematmulscatter", "groupgemm", "groupedgemm", "gemmtype)1", "gemmtype)2", "gemmtype)3", "groupproblemshape", "dynbatch", "dynbsm", "permuteunpermute", "expandinputrows", "doactivation", "computestridestma", "epscatter", "epgather", "topkforward", "topksoftmax"}},
	{Attention, []string{"flash::", "flashfwd", "flashattn", "flashsplitkv", "flashbwd", "flashmla", "fmha", "kernelmha", "mmha:", "::mha", "^mha", "xqa", "sdpa", "mqalogits", "cleanlogits", "topkperrow", "convertreqindex", "attention", "attn", "pagedkv", "decodewith", "prefillwith", "^fwdkernel", "^fwdgroupedkernel", "mlametadata", "mlareduce", "mladec", "::mla", "^mla", "aiter::pa", "reducesegments", "mergestate", "splitkvreduce", "scaleddotproduct", "flashdecoding", "ssmscan", "selectivescan", "chunkscan", "chunkstate", "statepassing", "causalconv1d", "gateddelta", "deltarule", "chunkgated", "recurrentgated", "chunklocal", "chunkscaled", "chunkfwd", "recomputewu", "gdngating", "^fwddiag", "^fwdkv", "^fwdnonediag"}},
	{Elementwise, []string{"upsample", "gridsample"}},
	{Sampling, []string{"sampl", "topktopp", "topkmask", "toppmask", "minpkernel", "multinomial", "argmax", "gumbel", "penalt", "softmaxforward", "logsoftmax", "radixsort", "mergesort", "bitonicsort", "sortpairs", "segmentedsort", "devicesegmentedradix", "topk", "cumsum", "devicescan", "kernelscan", "exponential", "rejection", "bincount", "aten::sort", "logprob", "temperature", "bitmask", "verifytree", "buildtree", "randperm", "distributionelementwise"}},
	{Norm, []string{"rmsnorm", "layernorm", "groupnorm", "batchnorm", "l2norm", "bnfw", "bnbw", "fusedaddrms", "fusedrms", "rms2d", "rsqrt", "normalization", "normkernel"}},
	{Rotary, []string{"rotary", "rope", "knentry"}},
	{Convolution, []string{"convolution", "convolve", "conv::", "conv1d", "conv2d", "conv3d", "implicitconv", "wgrad", "dgrad", "winograd", "scudnn", "implicitgemm", "fprop", "nchwtonhwc", "nhwctonchw", "pool2d", "maxpool", "avgpool"}},
	{Activation, []string{"silumul", "siluandmul", "actandmul"}},
	{Quantisation, []string{"intoue8m0"}},
	{GEMM, []string{"gemm", "gemv", "matmul", "cijk", "nvjet", "cublas", "splitk", "wgmma", "marlin", "machete", "exllama", "bitblas", "flatmm", "tritontem", "tritonmm", "tritonbmm", "^bmm", "aten::mm", "aten::bmm", "aten::addmm", "aten::linear", "aten::baddbmm", "mkldnnlinear", "onednn", "cutlass", "hipblas", "tensorop", "dotkernel", "scaledmm", "lmhead", "mkllinear", "trinity", "sgmv", "bgmv", "lora"}},
	{Convolution, []string{"cudnn"}},
	{Quantisation, []string{"quant", "fp8scale", "castfp8", "mxfp4pack", "tofp4", "absmax", "blockscale"}},
	{Activation, []string{"silu", "gelu", "swiglu", "swish", "relu", "threshold", "launchclampscalar", "tanh", "sigmoid"}},
	{Embedding, []string{"embedding", "indexselect", "vectorizedgather", "gatherkernel"}},
	{Copies, []string{"memcpy", "memset", "rocclr", "aten::copy", "aten::tocopy", "aten::clone"}},
	{Elementwise, []string{"elementwise", "reducekernel", "catarray", "tritonpoi", "tritonred", "tritonper", "fill", "copykernel", "indexkernel", "scatter", "gather", "arange", "aten::", "triton", "softmax", "transpose", "multitensorapply", "nestedtensor", "slotmapping", "deviceselect", "devicereduce", "devicecompact", "prepare"}},
}

var squeeze = strings.NewReplacer("_", "", " ", "")

// GroupOf says what a kernel or an operator is for, from its name.
func GroupOf(name string) Group {
	if len(name) > 400 {
		name = name[:400] // of a C++ template the rest is types
	}
	n := squeeze.Replace(strings.ToLower(strings.TrimPrefix(name, "void ")))
	best := len(Rules)
	for i := range len(n) {
		for _, w := range words[n[i]] {
			if w.rule < best && (i == 0 || !w.first) && strings.HasPrefix(n[i:], w.text) {
				best = w.rule
			}
		}
	}
	if best < len(Rules) {
		return Rules[best].Group
	}
	return Other
}

// word is one of a rule.
type word struct {
	text  string
	rule  int
	first bool // a name begins with it
}

// words are those of all rules, by their first letter.
var words = func() (table [256][]word) {
	for i, r := range Rules {
		for _, w := range r.Words {
			text, first := strings.CutPrefix(w, "^")
			table[text[0]] = append(table[text[0]], word{text, i, first})
		}
	}
	return table
}()

// vague reports whether a kernel's name says how it computes and not what for: what
// launched it may tell more.
func vague(g Group) bool {
	return g == Elementwise || g == Other || g == GEMM || g == Embedding || g == Sampling
}

// purpose is a group that an operator gives to the kernels below it, or false: only
// those that say what for. What autograd does around an operator adds gradients up.
func purpose(operator string) (Group, bool) {
	if strings.HasPrefix(operator, "autograd::engine") {
		return Other, false
	}
	switch g := GroupOf(operator); g {
	case Attention, MoE, Norm, Rotary, KVCache, Quantisation, Sampling, Activation, Convolution:
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
