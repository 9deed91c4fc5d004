package sim

// SharedPrefix returns the Blocks of a request that begins with the tokens of a group, such as a
// system prompt or a document. Two requests of one group share the shorter of their two prefixes.
func SharedPrefix(group uint64, tokens, blockSize int) []uint64 {
	blocks := make([]uint64, tokens/blockSize)
	for i := range blocks {
		blocks[i] = mixWords(group, uint64(i))
	}
	return blocks
}

// mixWords is the finaliser of SplitMix64 (Steele, Lea and Flood, 2014) over two words.
func mixWords(a, b uint64) uint64 {
	z := a + (b+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
