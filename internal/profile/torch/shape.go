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

// computes reports whether an operator's work follows from its inputs' shapes.
func computes(name []byte) bool {
	switch string(name) {
	case "aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::_scaled_mm", "record_param_comms",
		"aten::cudnn_convolution", "aten::miopen_convolution", "aten::convolution_backward":
		return true
	}
	return bytes.HasPrefix(name, []byte("aten::_scaled_dot_product_")) || bytes.HasSuffix(name, []byte("_attention_forward"))
}

// inputs are what an operator was called with.
type inputs struct {
	dims       [][]int64 // of each input; nil is no tensor
	size       []float64 // of an element, in bytes; 0 is unknown
	values     []string  // of those that are no tensors
	collective collective
}

// collective is one of NCCL or RCCL.
type collective struct {
	name    string
	in, out int64 // elements
	ranks   int64
	size    float64
}

// readInputs reads an operator's arguments.
func readInputs(args []byte) (in inputs) {
	fields(args, func(key, v []byte) {
		switch string(key) {
		case "Input Dims", "Input dims":
			var raw []json.RawMessage
			_ = json.Unmarshal(v, &raw) // what is not read is unknown, here and below
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
			in.collective.name = unquote(v)
		case "In msg nelems":
			in.collective.in, _ = whole64(v)
		case "Out msg nelems":
			in.collective.out, _ = whole64(v)
		case "Group size":
			in.collective.ranks, _ = whole64(v)
		case "dtype":
			in.collective.size = sizeOf(unquote(v))
		}
	})
	return in
}

// tensor returns the sizes of an input with n dimensions; nil where it is none.
func (in *inputs) tensor(i, n int) []float64 {
	if i >= len(in.dims) || len(in.dims[i]) != n {
		return nil
	}
	out := make([]float64, n)
	for k, v := range in.dims[i] {
		out[k] = float64(v)
	}
	return out
}

func (in *inputs) bytes(i int) float64 {
	if i < len(in.size) {
		return in.size[i]
	}
	return 0
}

// shapeOf computes the work of an operator; its zero value is unknown.
func shapeOf(name string, in inputs) profile.Shape {
	switch {
	case name == "record_param_comms":
		return in.collective.shape()
	case strings.Contains(name, "convolution"):
		return in.convolution(name)
	case strings.Contains(name, "attention"):
		return in.attention(name)
	}
	return in.product(name)
}

// product is a product of matrices: 2·m·n·k operations, and each matrix read or written once.
func (in *inputs) product(name string) profile.Shape {
	first := 0
	if name == "aten::addmm" || name == "aten::baddbmm" {
		first = 1 // a bias comes before the matrices
	}
	dims, batch := 2, 1.0
	if b := in.tensor(first, 3); b != nil {
		dims, batch = 3, b[0]
	}
	a, b := in.tensor(first, dims), in.tensor(first+1, dims)
	if a == nil || b == nil {
		return profile.Shape{}
	}
	a, b = a[dims-2:], b[dims-2:]
	if a[1] != b[0] {
		return profile.Shape{}
	}
	m, k, n, out := a[0], a[1], b[1], in.bytes(first)
	if name == "aten::_scaled_mm" {
		out = 2 // it returns 16 bits by default
	}
	return profile.Shape{
		Flops: 2 * batch * m * n * k, Bytes: batch * (m*k*in.bytes(first) + k*n*in.bytes(first+1) + m*n*out),
		Dims: fmt.Sprintf("%.0f×%.0f×%.0f", m, k, n),
	}
}

// convolution takes two operations for each weight and place of the output; backward twice as many, for the
// gradients of input and weights.
func (in *inputs) convolution(name string) profile.Shape {
	x, w := in.tensor(0, 4), in.tensor(1, 4)
	if name == "aten::convolution_backward" {
		if x, w = in.tensor(0, 4), in.tensor(2, 4); x != nil && w != nil {
			return profile.Shape{Flops: 4 * x[0] * x[2] * x[3] * w[0] * w[1] * w[2] * w[3], Dims: dimsOf(x) + " " + dimsOf(w)}
		}
		return profile.Shape{}
	}
	// cudnn_convolution and miopen_convolution: input, weight, [bias,] padding, stride, dilation, groups, …
	at := 2
	if name == "aten::miopen_convolution" {
		at = 3
	}
	if x == nil || w == nil || len(in.values) < at+3 {
		return profile.Shape{}
	}
	var sizes [3][]float64
	for i := range sizes {
		if json.Unmarshal([]byte(in.values[at+i]), &sizes[i]) != nil || len(sizes[i]) != 2 {
			return profile.Shape{}
		}
	}
	places := x[0]
	for i := range 2 {
		places *= math.Floor((x[2+i]+2*sizes[0][i]-sizes[2][i]*(w[2+i]-1)-1)/max(sizes[1][i], 1) + 1)
	}
	return profile.Shape{Flops: 2 * places * w[0] * w[1] * w[2] * w[3], Dims: dimsOf(x) + " " + dimsOf(w)}
}

// attention takes four operations for each pair of a query and a key, and element of a head; two and a half times
// as many backward (Dao, FlashAttention-2, section 4.1). Of causal attention half are counted.
func (in *inputs) attention(name string) profile.Shape {
	first, flops := 0, 4.0
	if strings.Contains(name, "backward") {
		first, flops = 1, 10
	}
	q, k := in.tensor(first, 4), in.tensor(first+1, 4)
	if q == nil || k == nil {
		return profile.Shape{}
	}
	head, length := 1, 2
	if strings.HasSuffix(name, "_attention_forward") && !strings.Contains(name, "scaled") {
		head, length = 2, 1 // batch, length, heads, width
	}
	if slices.Contains(in.values, "True") {
		flops /= 2
	}
	return profile.Shape{Flops: flops * q[0] * q[head] * q[length] * k[length] * q[3], Dims: dimsOf(q) + " " + dimsOf(k)}
}

func dimsOf(d []float64) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(d), "[]"), " ", "×")
}

// shape counts what a collective moves over each GPU's link, as nccl-tests does for the bus (doc/PERFORMANCE.md).
func (c collective) shape() profile.Shape {
	n, most := float64(c.ranks), float64(max(c.in, c.out))*c.size
	if n < 2 || most == 0 {
		return profile.Shape{}
	}
	factor := 1.0 // send, receive, broadcast, reduce
	switch name := strings.ToLower(c.name); {
	case strings.Contains(name, "reduce_scatter"), strings.Contains(name, "gather"), strings.Contains(name, "all_to_all"), strings.Contains(name, "alltoall"):
		factor = (n - 1) / n
	case strings.Contains(name, "allreduce"), strings.Contains(name, "all_reduce"):
		factor = 2 * (n - 1) / n
	}
	return profile.Shape{Bytes: factor * most, Dims: fmt.Sprintf("%.3g MB, %d ranks", most/1e6, c.ranks), Name: c.name}
}

// sizes are how many bytes elements have, by their type.
var sizes = map[string]float64{
	"bfloat16": 2, "half": 2, "float16": 2, "float": 4, "int": 4, "double": 8, "long int": 8, "long": 8, "unsigned char": 1, "signed char": 1, "byte": 1, "char": 1,
}

// sizeOf is how many bytes an element has; 0 is unknown.
func sizeOf(dtype string) float64 {
	d := strings.TrimPrefix(strings.ToLower(dtype), "c10::")
	if strings.HasPrefix(d, "float8") {
		return 1
	}
	return sizes[d]
}
