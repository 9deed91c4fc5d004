package perfmodel

import "testing"

func FuzzParseMemory(f *testing.F) {
	for _, s := range []string{"80GiB", "81559MiB", "80 GB", "1e300GiB", "-1GiB", "GiB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, ok := ParseMemory(s); ok && !(v > 0 && v <= 1<<50) {
			t.Errorf("%q is %v bytes", s, v)
		}
	})
}
