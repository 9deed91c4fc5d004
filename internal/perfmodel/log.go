package perfmodel

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
)

// maxLogBytes bounds how much of a log is looked at: the lines come at its start.
const maxLogBytes = 64 << 20

var loadingTook = regexp.MustCompile(`(?:Model loading took|Loading model weights took) ([\d.]{1,20}) (GiB|GB)`)

// LoadingTook finds the last “Model loading took … GiB” of a log and returns the
// bytes, 0 where there is none. vLLM writes GB in older releases and means GiB
// (v1/worker/gpu_model_runner.py).
func LoadingTook(r io.Reader) (float64, error) {
	in := bufio.NewReaderSize(io.LimitReader(r, maxLogBytes), 64<<10)
	var found float64
	for {
		line, err := in.ReadSlice('\n')
		if bytes.Contains(line, []byte("oad")) {
			if m := loadingTook.FindSubmatch(line); m != nil {
				if v, err := strconv.ParseFloat(string(m[1]), 64); err == nil && v < 1<<20 {
					found = v * gib
				}
			}
		}
		switch {
		case err == nil || errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return found, nil
		default:
			return found, fmt.Errorf("read engine log: %w", err)
		}
	}
}
