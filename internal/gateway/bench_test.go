package gateway

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

const wholeAnswer = `{"id":"cmpl-1","object":"text_completion","model":"m",` +
	`"choices":[{"index":0,"text":" word","finish_reason":"stop"}],` +
	`"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}}`

// BenchmarkWhole is a request that is not streamed, of eight clients for each
// processor; clients and upstream are included.
func BenchmarkWhole(b *testing.B) {
	up := raw(b, func(c net.Conn) {
		buf := make([]byte, 64<<10)
		for {
			if _, err := c.Read(buf); err != nil {
				return
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
				len(wholeAnswer), wholeAnswer)
		}
	})
	g := start(b, Config{}, up)
	body := `{"model":"m","prompt":"x"}`
	req := fmt.Appendf(nil, "POST /v1/completions HTTP/1.1\r\nHost: x\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	b.ReportAllocs()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
		if err != nil {
			b.Error(err)
			return
		}
		defer c.Close()
		buf := make([]byte, 64<<10)
		for pb.Next() {
			if _, err := c.Write(req); err != nil {
				b.Error(err)
				return
			}
			if _, err := c.Read(buf); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
