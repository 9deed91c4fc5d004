package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/load/loadtest"
	"github.com/sixty-dev/sixty/internal/load/selftest"
	"github.com/sixty-dev/sixty/internal/render"
)

// newBenchSelfTest proves the generator's error on the machine at hand.
func newBenchSelfTest() *cobra.Command {
	var seconds float64
	var streams []int
	var only, serve string
	var f outputFlags
	var serverCPU, cpu int
	cmd := &cobra.Command{
		Use:   "self-test",
		Short: "Prove the tool's own error against a scripted server that knows the truth",
		Long: `Runs tests against a scripted server in a process of its own and prints what was
reported minus what was true. With --cpu and --server-cpu each gets one processor.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if serve != "" {
				var script loadtest.Script
				if err := json.Unmarshal([]byte(serve), &script); err != nil {
					return fmt.Errorf("script: %w", err)
				}
				return loadtest.Serve(ctx, script, cmd.OutOrStdout())
			}
			if cpu >= 0 && os.Getenv(pinned) == "" {
				return repin(ctx, cpu, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			defer tuneRuntime()()
			var outcomes []*selftest.Outcome
			for _, c := range selftest.Cases(seconds, streams) {
				if !strings.Contains(c.Name, only) {
					continue
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "%s\n", c.Name)
				o, err := selftest.Run(ctx, c, func(ctx context.Context, s loadtest.Script) (string, func(), error) {
					return startScripted(ctx, s, serverCPU)
				})
				if err != nil {
					return err
				}
				outcomes = append(outcomes, o)
			}
			return f.write(cmd.OutOrStdout(), func(w io.Writer, o render.Options) error {
				if f.form() == "json" {
					return render.JSON(w, outcomes)
				}
				return selftest.Write(w, outcomes, o)
			})
		},
	}
	cmd.Flags().Float64Var(&seconds, "seconds", 3, "length of each test")
	cmd.Flags().IntSliceVar(&streams, "streams", []int{64, 256, 1000}, "numbers of paced streams")
	cmd.Flags().StringVar(&only, "run", "", "only tests whose name holds this `text`")
	cmd.Flags().IntVar(&cpu, "cpu", -1, "run the generator on this processor only")
	cmd.Flags().IntVar(&serverCPU, "server-cpu", -1, "run the scripted server on this processor only")
	f.register(cmd.Flags(), "text", "json")
	cmd.Flags().StringVar(&serve, "serve", "", "be the scripted server, with this script")
	_ = cmd.Flags().MarkHidden("serve") // the flag exists
	return cmd
}

// pinned marks a process that was started again on one processor.
const pinned = "SIXTY_SELF_TEST_PINNED"

// self is this program's command line on one processor, or on all with -1.
func self(ctx context.Context, cpu int, args ...string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	if cpu < 0 {
		return exec.CommandContext(ctx, exe, args...), nil
	}
	taskset, err := exec.LookPath("taskset")
	if err != nil {
		return nil, errors.New("pinning to a processor needs taskset (util-linux)")
	}
	return exec.CommandContext(ctx, taskset, append([]string{"-c", strconv.Itoa(cpu), exe}, args...)...), nil
}

// repin runs the same command on one processor.
func repin(ctx context.Context, cpu int, stdout, stderr io.Writer) error {
	c, err := self(ctx, cpu, os.Args[1:]...)
	if err != nil {
		return err
	}
	c.Env = append(os.Environ(), pinned+"=1")
	c.Stdout, c.Stderr = stdout, stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("run on processor %d: %w", cpu, err)
	}
	return nil
}

// startScripted starts the scripted server as a process of its own.
func startScripted(ctx context.Context, s loadtest.Script, cpu int) (url string, stop func(), err error) {
	script, err := json.Marshal(s)
	if err != nil {
		return "", nil, fmt.Errorf("script: %w", err)
	}
	c, err := self(ctx, cpu, "bench", "self-test", "--serve", string(script))
	if err != nil {
		return "", nil, err
	}
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return "", nil, fmt.Errorf("pipe: %w", err)
	}
	if err := c.Start(); err != nil {
		return "", nil, fmt.Errorf("start: %w", err)
	}
	stop = func() {
		_ = c.Process.Signal(os.Interrupt)
		done := make(chan struct{})
		go func() { _ = c.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(5 * time.Second):
			_ = c.Process.Kill()
			<-done
		}
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("wait for the scripted server: %w", err)
	}
	return strings.TrimSpace(line), stop, nil
}
