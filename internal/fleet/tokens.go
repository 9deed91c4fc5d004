package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// pieceBytes is the largest size of a token of the stand-in tokenizer. A word with the space before it is one token for
// each eight bytes. English text has about 1.2 tokens a word, close to real vocabularies.
const pieceBytes = 8

// word is the only token of every answer.
const word = " word"

// A prompt counts tokens and identifies the full blocks. Each block's id covers all blocks before it, too. No text is
// kept.
type prompt struct {
	tokens int
	blocks []uint64
	size   int
	h      uint64
}

func newPrompt(blockSize int) *prompt { return &prompt{size: blockSize, h: 14695981039346656037} }

func (p *prompt) addToken(id uint64) {
	p.h = hashWord(p.h, id)
	if p.tokens++; p.tokens%p.size == 0 {
		p.blocks = append(p.blocks, p.h)
	}
}

// addText adds the tokens of a text.
func (p *prompt) addText(s string) {
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
		p.addToken(id)
		s = s[end:]
	}
}

// A message is one message of a conversation. Its content is a text or a list of parts.
type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// templateTokens is the number of tokens that a chat template adds to a message.
const templateTokens = 5

// addMessages adds a conversation.
func (p *prompt) addMessages(list []message) error {
	for _, m := range list {
		for i := range templateTokens {
			p.addToken(uint64(i) + 1)
		}
		p.addText(m.Role)
		if len(m.Content) == 0 || string(m.Content) == "null" {
			continue
		}
		var s string
		if json.Unmarshal(m.Content, &s) == nil {
			p.addText(s)
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
			p.addText(part.Text)
		}
	}
	return nil
}

// addRaw adds the prompt field of a completion: a text, token ids, or a list with one of these.
func (p *prompt) addRaw(b json.RawMessage) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		p.addText(s)
		return nil
	}
	var ids []uint64
	if json.Unmarshal(b, &ids) == nil {
		for _, id := range ids {
			p.addToken(id)
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
	return p.addRaw(list[0])
}
