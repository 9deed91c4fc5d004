package sim

// SharedPrefix returns the Blocks of a request whose first tokens are those of a
// group, such as a system prompt or a document, and whose rest is its own.
// Requests of equal group share min of their lengths.
func SharedPrefix(group uint64, tokens, blockSize int) []uint64 {
	blocks := make([]uint64, tokens/blockSize)
	for i := range blocks {
		blocks[i] = mix(group, uint64(i))
	}
	return blocks
}

// SplitBlocks returns the Blocks of a request for which a trace gives hashes of
// larger blocks, such as Mooncake's of 512 tokens, where a hash stands for its
// block and all before it. The last hash of a trace may stand for a part of a
// block: tokens is the length that the hashes cover.
func SplitBlocks(hashes []uint64, size, tokens, blockSize int) []uint64 {
	var blocks []uint64
	for i := range min(tokens, len(hashes)*size) / blockSize {
		last := (i+1)*blockSize - 1 // a block that straddles two belongs to the later
		blocks = append(blocks, mix(hashes[last/size], uint64(i)))
	}
	return blocks
}

// mix is the finaliser of SplitMix64 (Steele, Lea and Flood, 2014) over two words.
func mix(a, b uint64) uint64 {
	z := a + (b+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
