package profile

import (
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"google.golang.org/protobuf/encoding/protowire"
)

// number and text append a field of a protocol buffer.
func number(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func text(b []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}

// Pprof writes the stacks as a profile that go tool pprof reads: gzipped protocol
// buffers, with the sample types kernels and nanoseconds of the device's time
// (github.com/google/pprof, proto/profile.proto).
func (s *Stacks) Pprof(w io.Writer) error {
	var p []byte
	index, strs := map[string]uint64{"": 0}, []string{""}
	id := func(text string) uint64 {
		n, ok := index[text]
		if !ok {
			n = uint64(len(strs))
			index[text] = n
			strs = append(strs, text)
		}
		return n
	}
	for _, kind := range [][2]string{{"kernels", "count"}, {"device", "nanoseconds"}} {
		p = text(p, 1, number(number(nil, 1, id(kind[0])), 2, id(kind[1])))
	}
	places := map[string]uint64{}
	for i, node := range s.nodes {
		if node.time == 0 {
			continue
		}
		var stack []byte
		for up := int32(i); up > 0; up = s.nodes[up].parent { //nolint:gosec // at most maxNodes
			name := s.label(up)
			n, ok := places[name]
			if !ok {
				n = uint64(len(places) + 1)
				places[name] = n
				p = text(p, 4, text(number(nil, 1, n), 4, number(nil, 1, n))) // a location
				p = text(p, 5, number(number(nil, 1, n), 2, id(name)))        // and its function
			}
			stack = protowire.AppendVarint(stack, n)
		}
		values := protowire.AppendVarint(protowire.AppendVarint(nil, uint64(node.count)), uint64(node.time)) //nolint:gosec // never negative
		p = text(p, 2, text(text(nil, 1, stack), 2, values))
	}
	for _, t := range strs {
		p = text(p, 6, []byte(t))
	}
	z := gzip.NewWriter(w)
	_, err := z.Write(p)
	if err = errors.Join(err, z.Close()); err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	return nil
}
