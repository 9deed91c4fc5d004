// Gatewaycost measures the cost of sixty gateway, and in turn that of nginx, if it is installed:
//
//	cd research/gatewaycost && go run . -sixty ../../bin/sixty
//
// CPU times are those of the proxy's own process, so that other load on the machine does not count.
package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var (
	binary  = flag.String("sixty", "../../bin/sixty", "the `program` to measure")
	parts   = flag.String("parts", "latency flood whole idle", "the measurements to make")
	streams = flag.Int("streams", 1000, "open streams while latency is measured")
	idle    = flag.Int("idle", 2000, "idle streams while memory is measured")
	rounds  = flag.Int("rounds", 3, "number of rounds")
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	defer func() {
		for _, end := range ends {
			end()
		}
	}()
	up := serveTimed()
	proxies := []*proxy{{name: "direct", addr: up}}
	for _, p := range []*proxy{sixtyProxy(up), nginxProxy(up)} {
		if p != nil {
			proxies = append(proxies, p)
		}
	}
	measure := func(part string) []*proxy {
		if strings.Contains(*parts, part) {
			return proxies
		}
		return nil
	}
	for round := range *rounds {
		for _, p := range measure("latency") {
			l := p.latency(*streams, 4*time.Second)
			log.Printf("round %d, %-8s %d streams: event P50 %s, P99 %s; %d events, %.1f µs of processor time each",
				round, p.name, *streams, l.p50, l.p99, l.events, l.cpu)
		}
		for _, p := range measure("flood") {
			events, wall, cpu := p.flood(4, 40_000)
			log.Printf("round %d, %-8s flood: %.0f events/s, %.0f events per second of processor time",
				round, p.name, float64(events)/wall, float64(events)/cpu)
		}
		for _, p := range measure("whole") {
			n, wall, cpu := p.whole(16, 3*time.Second)
			log.Printf("round %d, %-8s not streamed: %.0f requests/s, %.1f µs of processor time each",
				round, p.name, float64(n)/wall, 1e6*cpu/float64(n))
		}
	}
	for _, p := range measure("idle") {
		if p.name == "direct" {
			continue
		}
		before := p.rss()
		release := p.hold(*idle)
		after := p.rss()
		log.Printf("%-8s %d idle streams: %d kB before, %d kB with them: %.1f kB each",
			p.name, *idle, before, after, float64(after-before)/float64(*idle))
		release()
	}
}

// ends stop the processes that were started.
var ends []func()

// check ends the program with an error.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func listenLocally() net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	return l
}

var epoch = time.Now()

func nanos() int64 { return int64(time.Since(epoch)) }

// serveTimed runs an upstream whose events contain the time at which they were written. The query selects the answer:
// first, every and n; flood; hold; without these an answer that is not streamed.
func serveTimed() string {
	l := listenLocally()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				br := bufio.NewReader(c)
				for {
					r, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					if timedAnswer(c, r) != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

const wholeAnswer = `{"id":"cmpl-1","object":"text_completion","model":"m","choices":[{"index":0,"text":" word","finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}}`

func event(out []byte) []byte {
	body := fmt.Sprintf(`data: {"id":"chatcmpl-0123456789abcdef","t":"%016d","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}`+"\n\n", nanos())
	return fmt.Appendf(out, "%x\r\n%s\r\n", len(body), body)
}

func timedAnswer(c net.Conn, r *http.Request) error {
	q := r.URL.Query()
	n, _ := strconv.Atoi(q.Get("n"))
	first, _ := time.ParseDuration(q.Get("first"))
	every, _ := time.ParseDuration(q.Get("every"))
	if n == 0 && q.Get("hold") == "" {
		_, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			len(wholeAnswer), wholeAnswer)
		return err
	}
	out := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	if q.Get("hold") != "" {
		if _, err := c.Write(event(out)); err != nil {
			return err
		}
		_, err := c.Read(make([]byte, 1)) // until the other side closes
		return err
	}
	if _, err := c.Write(out); err != nil {
		return err
	}
	if every == 0 { // as fast as it can, eight events a write
		for range n / 8 {
			out = out[:0]
			for range 8 {
				out = event(out)
			}
			if _, err := c.Write(out); err != nil {
				return err
			}
		}
	} else {
		next := time.Now().Add(first)
		for range n {
			<-time.After(time.Until(next))
			if _, err := c.Write(event(out[:0])); err != nil {
				return err
			}
			next = next.Add(every)
		}
	}
	_, err := io.WriteString(c, "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
	return err
}

// stream is a client's stream of timed events.
type timedStream struct {
	net.Conn
	br    *bufio.Reader
	began int64
}

func dialStream(addr, path string) *timedStream {
	c, err := net.Dial("tcp", addr)
	check(err)
	body := `{"model":"m","stream":true,"prompt":"x"}`
	s := &timedStream{Conn: c, br: bufio.NewReaderSize(c, 2<<10), began: nanos()}
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, len(body), body)
	return s
}

// next returns when the next event was written, and when it was read.
func (s *timedStream) next() (written, read int64, err error) {
	for {
		line, err := s.br.ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull {
			return 0, 0, err
		}
		if i := bytes.Index(line, []byte(`"t":"`)); i >= 0 {
			written, err = strconv.ParseInt(strings.TrimLeft(string(line[i+5:i+21]), "0"), 10, 64)
			return written, nanos(), err
		}
		if bytes.Contains(line, []byte("[DONE]")) || bytes.HasPrefix(line, []byte("0\r\n")) {
			return 0, 0, io.EOF
		}
	}
}

// proxy is a proxy that is measured.
type proxy struct {
	name, addr string
	pids       []int
}

// cpu returns the CPU time of the proxy's processes so far, in seconds.
func (p *proxy) cpu() (total float64) {
	for _, pid := range p.pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		check(err)
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		for _, f := range fields[11:13] {
			ticks, _ := strconv.ParseFloat(f, 64)
			total += ticks / 100
		}
	}
	return total
}

// rss returns the resident memory in kB.
func (p *proxy) rss() (total int) {
	<-time.After(time.Second)
	for _, pid := range p.pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		check(err)
		_, after, _ := strings.Cut(string(b), "VmRSS:")
		var kb int
		fmt.Sscan(after, &kb)
		total += kb
	}
	return total
}

type latencies struct {
	p50, p99 time.Duration
	events   int
	cpu      float64 // µs for each event
}

// latency measures the delay of paced events, with many open streams.
func (p *proxy) latency(streams int, length time.Duration) latencies {
	const every = 500 * time.Millisecond
	var mu sync.Mutex
	var all []int64
	var wg sync.WaitGroup
	cpu := 0.0
	for i := range streams {
		<-time.After(every / time.Duration(streams)) // spread over the interval
		wg.Go(func() {
			s := dialStream(p.addr, fmt.Sprintf("/v1/completions?first=600ms&every=%s&n=%d", every, length/every))
			defer s.Close()
			var own []int64
			for {
				written, read, err := s.next()
				if err != nil {
					break
				}
				own = append(own, read-written)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, own...)
		})
		if i == streams-1 {
			cpu = p.cpu()
		}
	}
	wg.Wait()
	cpu = p.cpu() - cpu
	slices.Sort(all)
	if len(all) == 0 {
		log.Fatalf("%s: no event came through", p.name)
	}
	return latencies{time.Duration(all[len(all)/2]), time.Duration(all[len(all)*99/100]), len(all),
		1e6 * cpu / float64(len(all))}
}

// flood measures the cost of events that come as fast as possible.
func (p *proxy) flood(streams, n int) (events int, wall, cpu float64) {
	began, before := time.Now(), p.cpu()
	var count atomic.Int64
	var wg sync.WaitGroup
	for range streams {
		wg.Go(func() {
			s := dialStream(p.addr, fmt.Sprintf("/v1/completions?n=%d", n))
			defer s.Close()
			buf := make([]byte, 64<<10)
			for {
				k, err := s.br.Read(buf)
				count.Add(int64(bytes.Count(buf[:k], []byte(`"t":"`))))
				if err != nil || bytes.Contains(buf[:k], []byte("[DONE]")) {
					return
				}
			}
		})
	}
	wg.Wait()
	return int(count.Load()), time.Since(began).Seconds(), p.cpu() - before
}

// whole measures the cost of answers that are not streamed.
func (p *proxy) whole(clients int, length time.Duration) (n int, wall, cpu float64) {
	began, before := time.Now(), p.cpu()
	var count atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			c, err := net.Dial("tcp", p.addr)
			if err != nil {
				return
			}
			defer c.Close()
			br := bufio.NewReader(c)
			body := `{"model":"m","prompt":"x"}`
			req := fmt.Appendf(nil, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			for time.Since(began) < length {
				if _, err := c.Write(req); err != nil {
					return
				}
				resp, err := http.ReadResponse(br, nil)
				if err != nil {
					return
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					return
				}
				count.Add(1)
			}
		})
	}
	wg.Wait()
	return int(count.Load()), time.Since(began).Seconds(), p.cpu() - before
}

// hold opens n streams that stay idle until end is called.
func (p *proxy) hold(n int) (end func()) {
	var conns []net.Conn
	for range n {
		s := dialStream(p.addr, "/v1/completions?hold=1")
		_ = s.SetDeadline(time.Now().Add(30 * time.Second))
		if _, _, err := s.next(); err != nil {
			log.Fatalf("%s: %v", p.name, err)
		}
		conns = append(conns, s.Conn)
		s.br = nil
	}
	return func() {
		for _, c := range conns {
			c.Close()
		}
		<-time.After(time.Second)
	}
}

// spawn runs a proxy's process until the end, and waits for its port.
func spawn(name, addr string, args ...string) *proxy {
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 3 * time.Second
	check(cmd.Start())
	ends = append(ends, func() { cancel(); _ = cmd.Wait() })
	for end := time.Now().Add(20 * time.Second); ; <-time.After(50 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(end) {
			log.Fatalf("%s does not listen: %s", name, out.String())
		}
	}
	p := &proxy{name: name, addr: addr, pids: []int{cmd.Process.Pid}}
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid))
	for f := range strings.FieldsSeq(string(children)) {
		pid, _ := strconv.Atoi(f)
		p.pids = append(p.pids, pid)
	}
	return p
}

// temporary makes a directory that is removed at the end.
func temporary() string {
	dir, err := os.MkdirTemp("", "gatewaycost")
	check(err)
	ends = append(ends, func() { _ = os.RemoveAll(dir) })
	return dir
}

func freeAddr() string {
	l := listenLocally()
	defer l.Close()
	return l.Addr().String()
}

func sixtyProxy(up string) *proxy {
	addr := freeAddr()
	return spawn("sixty", addr, *binary, "gateway", "--upstream", "http://"+up, "--listen", addr, "--admin", freeAddr())
}

func configFile(name, text string) string {
	path := filepath.Join(temporary(), name)
	check(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// nginxProxy is configured as its documents say for streaming: HTTP/1.1 with kept
// connections to the upstream, and no buffering.
func nginxProxy(up string) *proxy {
	binary, err := exec.LookPath("nginx")
	if err != nil {
		return nil
	}
	addr, dir := freeAddr(), temporary()
	conf := configFile("nginx.conf", fmt.Sprintf(`
daemon off; worker_processes 2; pid %[3]s/pid; error_log /dev/null; user root;
events { worker_connections 19000; }
http {
  access_log /dev/null; client_body_temp_path %[3]s/a; proxy_temp_path %[3]s/b; fastcgi_temp_path %[3]s/c; uwsgi_temp_path %[3]s/d; scgi_temp_path %[3]s/e;
  upstream u { server %[2]s; keepalive 256; }
  server { listen %[1]s; keepalive_requests 1000000;
    location / { proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; proxy_read_timeout 600s; } }
}`, addr, up, dir))
	return spawn("nginx", addr, binary, "-c", conf)
}
