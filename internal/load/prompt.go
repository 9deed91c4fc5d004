package load

import (
	"fmt"
	"strings"

	"github.com/sixty-dev/sixty/internal/sim/workload"
)

// defaultWords are frequent English words. After a space each is one token in the BPE vocabularies of Llama 3, Qwen 2
// and 3, Mistral and GPT-4.
const defaultWords = `
time year people way day man thing woman life child world school state family student group country problem hand
part place case week company system program question work government number night point home water room mother
area money story fact month lot right study book eye job word business issue side kind head house service friend
father power hour game line end member law car city community name president team minute idea kid body
information back parent face others level office door health person art war history party result change morning
reason research girl guy moment air teacher force education foot boy age policy process music market sense
nation plan college interest death experience effect use class control field development role effort rate heart
drug show leader light voice wife police mind price report decision son view relationship town road difference
value building action season society tax director position player record paper space ground form event official
matter center couple site project activity star table need court oil situation cost industry figure street image
phone data picture practice piece land product doctor wall patient worker news test movie north love support
technology step baby computer type attention film tree source organization hair look window culture chance
brother energy period course summer plant opportunity term letter condition choice rule south floor campaign
material population call economy hospital church risk fire future bank west sport board subject officer rest
behavior performance top goal second bed order author blood agency nature color store sound`

// A Vocabulary writes prompts with a given number of tokens, as text of words with a space before each.
type Vocabulary struct {
	words []string // JSON-safe

	// TokensPerWord is 1 if every word is known to be one token.
	TokensPerWord float64
	// Overhead is the number of tokens that the server adds to a prompt: the chat template, a beginning-of-sequence
	// token.
	Overhead int
	// Source is the source of these two numbers: "server", "usage", "assumed".
	Source string
}

// DefaultVocabulary returns common English words, each assumed to be one token.
func DefaultVocabulary() *Vocabulary {
	v := &Vocabulary{TokensPerWord: 1, Source: "assumed"}
	for w := range strings.FieldsSeq(defaultWords) {
		v.words = append(v.words, " "+w)
	}
	return v
}

// newWordVocabulary returns a vocabulary of words that are one token each.
func newWordVocabulary(words []string, source string) (*Vocabulary, error) {
	if len(words) < minWords {
		return nil, fmt.Errorf("only %d usable words of one token, want %d", len(words), minWords)
	}
	return &Vocabulary{words: words, TokensPerWord: 1, Source: source}, nil
}

// minWords is enough for prompts not to repeat: there are 2^80 sequences of 16 words.
const minWords = 32

// Append appends the parts of a prompt to the content of a JSON string.
func (v *Vocabulary) Append(dst []byte, parts []workload.PromptPart) []byte {
	before := 0 // tokens, so that rounding errors do not add up over the parts
	for i, p := range parts {
		n := p.Tokens
		if i == len(parts)-1 {
			n = max(n-v.Overhead, 1)
		}
		count := v.wordsFor(before+n) - v.wordsFor(before)
		before += n
		state := p.Seed
		for range count {
			state += 0x9e3779b97f4a7c15
			x := (state ^ state>>30) * 0xbf58476d1ce4e5b9
			x = (x ^ x>>27) * 0x94d049bb133111eb
			dst = append(dst, v.words[(x>>32)*uint64(len(v.words))>>32]...)
		}
	}
	return dst
}

func (v *Vocabulary) wordsFor(tokens int) int {
	if v.TokensPerWord == 1 || tokens == 0 {
		return tokens
	}
	return max(int(float64(tokens)/v.TokensPerWord+0.5), 1)
}
