package fleet_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sixty-dev/sixty/internal/fleet"
	"github.com/sixty-dev/sixty/internal/sim"
)

// serveEnv makes the test binary serve a fleet on one core until its input
// ends; its value is the number of replicas.
const serveEnv = "SIXTY_FLEET_SERVE"

func TestMain(m *testing.M) {
	if n, err := strconv.Atoi(os.Getenv(serveEnv)); err == nil {
		if err := serveOnOneCore(n); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// paced is an engine whose step takes 50 ms with its share of the streams, and
// less with fewer, so that the steps of several engines do not stay together.
func paced(replicas int) fleet.Settings {
	const perSeq = 20e-6
	cost := sim.StepCost{Base: 50e-3 - perSeq*nStreams/float64(replicas), PerSeq: perSeq}
	return fleet.Settings{MaxNumSeqs: 2048, MaxNumBatchedTokens: 8192, NumBlocks: 1 << 16, Cost: cost}
}

const nStreams = 2000

func serveOnOneCore(replicas int) error {
	runtime.GOMAXPROCS(1)
	signal.Ignore(os.Interrupt)
	sc := fleet.WithoutTraffic()
	sc.Settings = paced(replicas)
	f, err := fleet.Start(fleet.Config{Scenario: sc, Replicas: replicas})
	if err != nil {
		return err
	}
	for _, u := range f.URLs() {
		fmt.Println(u)
	}
	fmt.Println()
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() { // a line asks for the lateness so far
		p50, _, err := f.Lateness(0.50)
		if err != nil {
			return err
		}
		p99, n, err := f.Lateness(0.99)
		if err != nil {
			return err
		}
		fmt.Println(int64(p50), int64(p99), n)
	}
	return f.Close()
}

// BenchmarkStreams holds 2,000 streams of 20 tokens a second open against a fleet
// in a process of its own, on one core, and reports by how much tokens were
// written late.
func BenchmarkStreams(b *testing.B) {
	for _, replicas := range []int{8, 2, 1} {
		b.Run(fmt.Sprintf("%d streams on %d replicas", nStreams, replicas), func(b *testing.B) { streams(b, replicas, nStreams) })
	}
}

func streams(b *testing.B, replicas, n int) {
	const tokens = 120
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveEnv+"="+strconv.Itoa(replicas))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
		b.Logf("CPU of the server: %v user, %v system", cmd.ProcessState.UserTime(), cmd.ProcessState.SystemTime())
	}()
	lines := bufio.NewScanner(out)
	var urls []string
	for lines.Scan() && lines.Text() != "" {
		urls = append(urls, strings.TrimPrefix(lines.Text(), "http://"))
	}
	var got atomic.Int64
	for b.Loop() {
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 2 * time.Second / time.Duration(n))
				read, err := stream(urls[i*len(urls)/n], tokens)
				got.Add(int64(read))
				if err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
	}
	fmt.Fprintln(in)
	if !lines.Scan() {
		b.Fatal("the server said nothing")
	}
	var p50, p99, sent int64
	if _, err := fmt.Sscan(lines.Text(), &p50, &p99, &sent); err != nil {
		b.Fatal(err)
	}
	if sent != int64(b.N*n*tokens) || got.Load() < sent {
		b.Errorf("%d tokens were written and %d events read, want %d", sent, got.Load(), b.N*n*tokens)
	}
	b.ReportMetric(float64(p50)/1e6, "p50-late-ms")
	b.ReportMetric(float64(p99)/1e6, "p99-late-ms")
	b.ReportMetric(0, "ns/op")
}

// stream reads one answer and counts its events.
func stream(addr string, tokens int) (int, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	body := fmt.Sprintf(`{"model":"llama-8b","prompt":"one two three","stream":true,"ignore_eos":true,"max_tokens":%d}`, tokens)
	if _, err := fmt.Fprintf(conn, "POST /v1/completions HTTP/1.1\r\nHost: fleet\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		return 0, err
	}
	events := 0
	buf := make([]byte, 4<<10)
	for {
		n, err := conn.Read(buf)
		events += strings.Count(string(buf[:n]), "data: {")
		if err == io.EOF {
			return events, nil
		}
		if err != nil {
			return events, err
		}
	}
}
