package diagnose

// ForgetOnsets makes the memory forget what was said of faults that go on.
func (m *Memory) ForgetOnsets() { m.onsets = nil }
