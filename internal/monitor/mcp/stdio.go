package mcp

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxLine bounds a message on standard input, in bytes.
const maxLine = 1 << 20

// Stdio serves over standard input and output until they end.
func Stdio(ctx context.Context, o Options) error { return Serve(ctx, o, os.Stdin, os.Stdout) }

// Serve serves over a reader of lines, each of them a message, and a writer. A line that is no
// message is answered with an error of JSON-RPC 2.0 (section 5.1), and does not end the session.
func Serve(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	w := &lockedWriter{w: out}
	messages, pipe := io.Pipe()
	go func() { pipe.CloseWithError(passMessages(in, pipe, w)) }()
	return Server(o).Run(ctx, &mcp.IOTransport{Reader: messages, Writer: w})
}

// passMessages writes the lines that are messages to one writer, and errors about the others to
// another. It returns the error of reading, or nil at the end.
func passMessages(in io.Reader, messages, answers io.Writer) error {
	lines := bufio.NewReaderSize(in, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		problem := ""
		if err == bufio.ErrBufferFull { //nolint:errorlint // bufio returns it as it is
			problem = fmt.Sprintf("Parse error: a message is limited to %d bytes", maxLine)
			for err == bufio.ErrBufferFull { //nolint:errorlint // bufio returns it as it is
				_, err = lines.ReadSlice('\n')
			}
		} else if line = bytes.TrimSpace(line); len(line) > 0 {
			if _, bad := jsonrpc.DecodeMessage(line); bad != nil {
				problem = "Parse error: the line is not a JSON-RPC message"
			} else if _, failed := messages.Write(append(line, '\n')); failed != nil {
				return failed
			}
		}
		if problem != "" {
			fmt.Fprintf(answers, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":%q}}`+"\n", problem)
		}
		switch err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}

// A lockedWriter is one that several may write to.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func (l *lockedWriter) Close() error { return nil }
