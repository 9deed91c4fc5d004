package torch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/profile"
)

// hasKnownCost reports whether costOf can compute an operator's cost.
func hasKnownCost(name []byte) bool {
	switch string(name) {
	case "aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::_scaled_mm", "record_param_comms",
		"aten::cudnn_convolution", "aten::miopen_convolution", "aten::convolution_backward":
		return true
	}
	return bytes.HasPrefix(name, []byte("aten::_scaled_dot_product_")) ||
		bytes.HasSuffix(name, []byte("_attention_forward"))
}

// inputs are the recorded inputs of one call of an operator.
type inputs struct {
	dims       [][]int64 // sizes of the dimensions, by input; nil if it is not a tensor
	size       []float64 // bytes of an element, by input; 0 is unknown
	values     []string  // other arguments than tensors
	collective collective
}

// A collective is an operation between ranks.
type collective struct {
	name    string
	in, out int64 // elements
	ranks   int64
	size    float64 // bytes of an element
}

func readInputs(args []byte) (in inputs) {
	eachField(args, func(key, v []byte) {
		switch string(key) {
		case "Input Dims", "Input dims":
			var raw []json.RawMessage
			_ = json.Unmarshal(v, &raw) // an unreadable value is unknown, here and below
			in.dims = make([][]int64, len(raw))
			for i := range raw {
				_ = json.Unmarshal(raw[i], &in.dims[i])
			}
		case "Input type":
			var types []string
			_ = json.Unmarshal(v, &types)
			for _, t := range types {
				in.size = append(in.size, sizeOf(t))
			}
		case "Concrete Inputs":
			_ = json.Unmarshal(v, &in.values)
		case "Collective name":
			in.collective.name = unquoteString(v)
		case "In msg nelems":
			in.collective.in, _ = parseInt64(v)
		case "Out msg nelems":
			in.collective.out, _ = parseInt64(v)
		case "Group size":
			in.collective.ranks, _ = parseInt64(v)
		case "dtype":
			in.collective.size = sizeOf(unquoteString(v))
		}
	})
	return in
}

// tensorDims returns the sizes of a tensor's n dimensions; nil if the input is no such tensor.
func (in *inputs) tensorDims(i, n int) []float64 {
	if i >= len(in.dims) || len(in.dims[i]) != n {
		return nil
	}
	out := make([]float64, n)
	for k, v := range in.dims[i] {
		out[k] = float64(v)
	}
	return out
}

// elementBytes returns the bytes of a tensor's element; 0 is unknown.
func (in *inputs) elementBytes(i int) float64 {
	if i < len(in.size) {
		return in.size[i]
	}
	return 0
}

// costOf computes the cost of an operator; its zero value is unknown.
func costOf(name string, in inputs) profile.Cost {
	switch {
	case name == "record_param_comms":
		return in.collective.busCost()
	case strings.Contains(name, "convolution"):
		return in.convolutionCost(name)
	case strings.Contains(name, "attention"):
		return in.attentionCost(name)
	}
	return in.productCost(name)
}

// productCost is the cost of a matrix product: 2·m·n·k operations, and each matrix is read or written once.
func (in *inputs) productCost(name string) profile.Cost {
	first := 0
	if name == "aten::addmm" || name == "aten::baddbmm" {
		first = 1 // a bias comes before the matrices
	}
	dims, batch := 2, 1.0
	if b := in.tensorDims(first, 3); b != nil {
		dims, batch = 3, b[0]
	}
	a, b := in.tensorDims(first, dims), in.tensorDims(first+1, dims)
	if a == nil || b == nil {
		return profile.Cost{}
	}
	a, b = a[dims-2:], b[dims-2:]
	if a[1] != b[0] {
		return profile.Cost{}
	}
	m, k, n, out := a[0], a[1], b[1], in.elementBytes(first)
	if name == "aten::_scaled_mm" {
		out = 2 // it returns 16 bits by default
	}
	return profile.Cost{
		Flops: 2 * batch * m * n * k,
		Bytes: batch * (m*k*in.elementBytes(first) + k*n*in.elementBytes(first+1) + m*n*out),
		Dims:  fmt.Sprintf("%.0f×%.0f×%.0f", m, k, n),
	}
}

// convolutionCost is the cost of a convolution: two operations for each weight and place of the output; backward twice
// as many, for the gradients of input and weights.
func (in *inputs) convolutionCost(name string) profile.Cost {
	x, w := in.tensorDims(0, 4), in.tensorDims(1, 4)
	if name == "aten::convolution_backward" {
		if x, w = in.tensorDims(0, 4), in.tensorDims(2, 4); x != nil && w != nil {
			flops := 4 * x[0] * x[2] * x[3] * w[0] * w[1] * w[2] * w[3]
			return profile.Cost{Flops: flops, Dims: dimsOf(x) + " " + dimsOf(w)}
		}
		return profile.Cost{}
	}
	// cudnn_convolution and miopen_convolution: input, weight, [bias,] padding, stride, dilation, groups, …
	at := 2
	if name == "aten::miopen_convolution" {
		at = 3
	}
	if x == nil || w == nil || len(in.values) < at+3 {
		return profile.Cost{}
	}
	var sizes [3][]float64
	for i := range sizes {
		if json.Unmarshal([]byte(in.values[at+i]), &sizes[i]) != nil || len(sizes[i]) != 2 {
			return profile.Cost{}
		}
	}
	places := x[0]
	for i := range 2 {
		places *= math.Floor((x[2+i]+2*sizes[0][i]-sizes[2][i]*(w[2+i]-1)-1)/max(sizes[1][i], 1) + 1)
	}
	return profile.Cost{Flops: 2 * places * w[0] * w[1] * w[2] * w[3], Dims: dimsOf(x) + " " + dimsOf(w)}
}

// attentionCost is the cost of attention: four operations for each query, key and element of a head; backward two and a
// half times as many (Dao, FlashAttention-2, section 4.1). Causal attention has half of these.
func (in *inputs) attentionCost(name string) profile.Cost {
	first, flops := 0, 4.0
	if strings.Contains(name, "backward") {
		first, flops = 1, 10
	}
	q, k := in.tensorDims(first, 4), in.tensorDims(first+1, 4)
	if q == nil || k == nil {
		return profile.Cost{}
	}
	head, length := 1, 2
	if strings.HasSuffix(name, "_attention_forward") && !strings.Contains(name, "scaled") {
		head, length = 2, 1 // batch, length, heads, width
	}
	if slices.Contains(in.values, "True") {
		flops /= 2
	}
	flops *= q[0] * q[head] * q[length] * k[length] * q[3]
	return profile.Cost{Flops: flops, Dims: dimsOf(q) + " " + dimsOf(k)}
}

func dimsOf(d []float64) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(d), "[]"), " ", "×")
}

// busCost has the bytes that a collective moves over each GPU's link, by the factors of nccl-tests
// (doc/PERFORMANCE.md).
func (c collective) busCost() profile.Cost {
	n, most := float64(c.ranks), float64(max(c.in, c.out))*c.size
	if n < 2 || most == 0 {
		return profile.Cost{}
	}
	factor := 1.0 // send, receive, broadcast, reduce
	switch name := strings.ToLower(c.name); {
	case strings.Contains(name, "reduce_scatter"), strings.Contains(name, "gather"),
		strings.Contains(name, "all_to_all"), strings.Contains(name, "alltoall"):
		factor = (n - 1) / n
	case strings.Contains(name, "allreduce"), strings.Contains(name, "all_reduce"):
		factor = 2 * (n - 1) / n
	}
	return profile.Cost{Bytes: factor * most, Dims: fmt.Sprintf("%.3g MB, %d ranks", most/1e6, c.ranks), Name: c.name}
}

var sizes = map[string]float64{
	"bfloat16": 2, "half": 2, "float16": 2, "float": 4, "int": 4, "double": 8, "long int": 8, "long": 8,
	"unsigned char": 1, "signed char": 1, "byte": 1, "char": 1,
}

// sizeOf returns the bytes of an element of a data type; 0 is unknown.
func sizeOf(dtype string) float64 {
	d := strings.TrimPrefix(strings.ToLower(dtype), "c10::")
	if strings.HasPrefix(d, "float8") {
		return 1
	}
	return sizes[d]
}
