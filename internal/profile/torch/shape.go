package torch

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sixty-dev/sixty/internal/profile"
)

// computes reports whether an operator's work follows from its inputs' shapes.
func computes(name []byte) bool {
	switch string(name) {
	case "aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::_scaled_mm":
		return true
	}
	return false
}

// shapeOf computes the work of a matrix product: 2·m·n·k operations, and each matrix
// read or written once.
func shapeOf(name string, dims, types []byte) profile.Shape {
	var d []json.RawMessage
	var t []string
	if json.Unmarshal(dims, &d) != nil {
		return profile.Shape{}
	}
	_ = json.Unmarshal(types, &t) // without types the bytes are unknown
	var inputs [][]int64
	var sizes []float64
	for i, raw := range d {
		var v []int64
		if json.Unmarshal(raw, &v) != nil || len(v) < 2 {
			continue
		}
		inputs = append(inputs, v)
		size := 0.0
		if i < len(t) {
			size = sizeOf(t[i])
		}
		sizes = append(sizes, size)
	}
	first := 0
	if (name == "aten::addmm" || name == "aten::baddbmm") && len(inputs) == 3 {
		first = 1 // a bias with two dimensions or more comes before the matrices
	}
	if len(inputs) < first+2 {
		return profile.Shape{}
	}
	a, b := inputs[first], inputs[first+1]
	batch := 1.0
	if len(a) == 3 && len(b) == 3 {
		batch = float64(a[0])
		a, b = a[1:], b[1:]
	}
	if len(a) != 2 || len(b) != 2 || a[1] != b[0] {
		return profile.Shape{}
	}
	m, k, n := float64(a[0]), float64(a[1]), float64(b[1])
	size, sizeB := sizes[first], sizes[first+1]
	out := size
	if name == "aten::_scaled_mm" {
		out = 2 // it returns 16 bits by default
	}
	return profile.Shape{
		Flops: 2 * batch * m * n * k, Bytes: batch * (m*k*size + k*n*sizeB + m*n*out),
		Dims: fmt.Sprintf("%.0f×%.0f×%.0f", m, k, n),
	}
}

// sizeOf is how many bytes an element has; 0 is unknown.
func sizeOf(dtype string) float64 {
	switch d := strings.ToLower(dtype); {
	case strings.Contains(d, "bfloat16"), strings.Contains(d, "half"), strings.Contains(d, "float16"):
		return 2
	case strings.Contains(d, "float8"), d == "unsigned char", d == "signed char":
		return 1
	case d == "float", d == "int":
		return 4
	case d == "double", d == "long int":
		return 8
	}
	return 0
}
