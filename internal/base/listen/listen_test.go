package listen

import "testing"

func TestPublic(t *testing.T) {
	for addr, want := range map[string]bool{
		":6060": false, "localhost:6060": false, "127.0.0.1:6060": false, "[::1]:6060": false,
		"0.0.0.0:6060": true, "[::]:6060": true, "10.0.0.1:6060": true, "monitor.example.com:6060": true,
	} {
		if got := Public(addr); got != want {
			t.Errorf("Public(%q) = %t, want %t", addr, got, want)
		}
	}
}
