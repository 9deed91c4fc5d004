package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// maxPrompt bounds a prompt of the user's own, in bytes.
const maxPrompt = 16 << 20

// A Prompt is a prompt of the user's own, as JSON: a text, or the messages of a chat.
type Prompt struct {
	Text     json.RawMessage
	Messages json.RawMessage
}

// ReadPrompts reads prompts from JSON Lines. A line is a text, an object with a text as its prompt, or an object with
// messages. Errors name the line.
func ReadPrompts(r io.Reader) ([]Prompt, error) {
	var out []Prompt
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxPrompt)
	number := 0
	for lines.Scan() {
		number++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		p, err := parsePrompt(bytes.Clone(line))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		out = append(out, p)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", number+1, err)
	}
	if len(out) == 0 {
		return nil, errors.New("no prompt is in it")
	}
	return out, nil
}

// parsePrompt reads one line.
func parsePrompt(line []byte) (p Prompt, err error) {
	var object struct{ Prompt, Messages json.RawMessage }
	if line[0] == '"' {
		object.Prompt = line
	}
	if line[0] == '{' || !json.Valid(line) {
		if err = json.Unmarshal(line, &object); err != nil {
			return p, fmt.Errorf("not JSON: %w", err)
		}
	}
	var text string
	var messages []map[string]any
	switch {
	case object.Prompt != nil && json.Unmarshal(object.Prompt, &text) == nil:
		return Prompt{Text: object.Prompt}, nil
	case object.Messages != nil && json.Unmarshal(object.Messages, &messages) == nil && len(messages) > 0:
		return Prompt{Messages: object.Messages}, nil
	}
	return p, errors.New(`want a text, {"prompt": "…"} or {"messages": […]}`)
}

// setPrompts sends prompts of the user's own in turn, in place of words.
func (e *endpoint) setPrompts(prompts []Prompt) error {
	model, err := json.Marshal(e.target.Model)
	if err != nil {
		return fmt.Errorf("model name: %w", err)
	}
	for i, p := range prompts {
		field := fmt.Appendf(nil, `"prompt":%s`, p.Text)
		switch {
		case p.Messages != nil && e.target.API != Chat:
			return fmt.Errorf("prompt %d has messages, which API %s does not take", i+1, e.target.API)
		case p.Messages != nil:
			field = fmt.Appendf(nil, `"messages":%s`, p.Messages)
		case e.target.API == Chat:
			field = fmt.Appendf(nil, `"messages":[{"role":"user","content":%s}]`, p.Text)
		}
		e.prompts = append(e.prompts, fmt.Appendf(nil, `{"model":%s,%s`, model, field))
	}
	return nil
}

// nextPrompt returns the body up to the next prompt of the user's own, included.
func (e *endpoint) nextPrompt() []byte {
	return e.prompts[(e.asked.Add(1)-1)%uint64(len(e.prompts))]
}

// promptTokens returns the length that a prompt is to have, 0 if it is the user's own.
func (e *endpoint) promptTokens(t *workload.Turn) int32 {
	if len(e.prompts) > 0 {
		return 0
	}
	return int32(t.PromptTokens())
}
