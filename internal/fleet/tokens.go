package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// pieceBytes is the length of a token of the stand-in tokenizer: a word with
// the space before it is one token for each eight bytes. English text comes to
// about 1.2 tokens a word, near what real vocabularies make of it.
const pieceBytes = 8

// word is a token of every answer, to the stand-in a single one.
const word = " word"

// prompt counts tokens and gives the identity of the full blocks: each
// stands for all before it too. No text is kept.
type prompt struct {
	tokens int
	blocks []uint64
	size   int
	h      uint64
}

func newPrompt(blockSize int) *prompt { return &prompt{size: blockSize, h: 14695981039346656037} }

func (p *prompt) token(id uint64) {
	p.h = hash(p.h, id)
	if p.tokens++; p.tokens%p.size == 0 {
		p.blocks = append(p.blocks, p.h)
	}
}

// text adds the tokens of a text.
func (p *prompt) text(s string) {
	for len(s) > 0 {
		end := len(s)
		if i := strings.IndexByte(s[1:], ' '); i >= 0 {
			end = i + 1
		}
		end = min(end, pieceBytes)
		id := uint64(end)
		for i := range end {
			id = id<<7 ^ id>>57 ^ uint64(s[i])
		}
		p.token(id)
		s = s[end:]
	}
}

// message is one of a conversation. Its content is a text or a list of parts.
type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// templateTokens is what a chat template puts around a message.
const templateTokens = 5

// messages adds a conversation.
func (p *prompt) messages(list []message) error {
	for _, m := range list {
		for i := range templateTokens {
			p.token(uint64(i) + 1)
		}
		p.text(m.Role)
		if len(m.Content) == 0 || string(m.Content) == "null" {
			continue
		}
		var s string
		if json.Unmarshal(m.Content, &s) == nil {
			p.text(s)
			continue
		}
		var parts []struct{ Type, Text string }
		if err := json.Unmarshal(m.Content, &parts); err != nil {
			return errors.New("content must be a text or a list of parts")
		}
		for _, part := range parts {
			if part.Type != "text" {
				return fmt.Errorf("content parts of type %q are not imitated", part.Type)
			}
			p.text(part.Text)
		}
	}
	return nil
}

// raw adds the prompt field of a completion: a text, token ids, or a list with
// one of these.
func (p *prompt) raw(b json.RawMessage) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		p.text(s)
		return nil
	}
	var ids []uint64
	if json.Unmarshal(b, &ids) == nil {
		for _, id := range ids {
			p.token(id)
		}
		return nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return errors.New("prompt must be a text, token ids, or a list with one of these")
	}
	if len(list) != 1 {
		return errors.New("several prompts in one request are not imitated")
	}
	return p.raw(list[0])
}
