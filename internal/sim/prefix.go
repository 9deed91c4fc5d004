package sim

import "github.com/sixty-dev/sixty/internal/base/stat"

// SharedPrefix returns the Blocks of a request that begins with the tokens of a group, such as a system prompt or a
// document. Two requests of one group share the shorter of their two prefixes.
func SharedPrefix(group uint64, tokens, blockSize int) []uint64 {
	hashes := make([]uint64, tokens/blockSize)
	for i := range hashes {
		hashes[i] = stat.Mix(uint64(i), group)
	}
	return hashes
}
