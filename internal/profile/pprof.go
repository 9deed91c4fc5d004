package profile

import (
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
)

// Pprof writes the stacks as a profile that go tool pprof reads: gzipped protocol
// buffers, with the sample types kernels and nanoseconds of the device's time
// (github.com/google/pprof, proto/profile.proto).
func (s *Stacks) Pprof(w io.Writer) error {
	var p message
	index := map[string]uint64{"": 0}
	strs := []string{""}
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
		var v message
		v.number(1, id(kind[0]))
		v.number(2, id(kind[1]))
		p.bytes(1, v)
	}
	places := map[string]uint64{}
	var order []string
	s.Samples(func(x Sample) {
		var sample, stack, values message
		for _, name := range x.Stack {
			n, ok := places[name]
			if !ok {
				n = uint64(len(places) + 1)
				places[name] = n
				order = append(order, name)
			}
			stack.varint(n)
		}
		values.varint(uint64(max(x.Count, 0)))
		values.varint(uint64(max(x.Time, 0)))
		sample.bytes(1, stack)
		sample.bytes(2, values)
		p.bytes(2, sample)
	})
	for i, name := range order {
		n := uint64(i + 1) //nolint:gosec // never negative
		var location, line, function message
		line.number(1, n)
		location.number(1, n)
		location.bytes(4, line)
		p.bytes(4, location)
		function.number(1, n)
		function.number(2, id(name))
		p.bytes(5, function)
	}
	for _, text := range strs {
		p.bytes(6, message(text))
	}
	z := gzip.NewWriter(w)
	if _, err := z.Write(p); err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	return nil
}

// message is a protocol buffer while it is written.
type message []byte

func (m *message) varint(v uint64) {
	for v >= 0x80 {
		*m = append(*m, byte(v)|0x80)
		v >>= 7
	}
	*m = append(*m, byte(v))
}

func (m *message) number(field int, v uint64) {
	m.varint(uint64(field) << 3) //nolint:gosec // a constant
	m.varint(v)
}

func (m *message) bytes(field int, b message) {
	m.varint(uint64(field)<<3 | 2) //nolint:gosec // a constant
	m.varint(uint64(len(b)))
	*m = append(*m, b...)
}
