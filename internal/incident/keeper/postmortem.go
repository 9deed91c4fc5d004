package keeper

import (
	"bytes"

	"github.com/sixty-dev/sixty/internal/report/postmortem"
)

// PostMortem writes an incident as Markdown with plots.
func (k *Keeper) PostMortem(id string) ([]byte, error) {
	i, err := k.Get(id)
	if err != nil {
		return nil, err
	}
	var course []byte
	if k.store != nil {
		if course, err = k.store.document(id, courseFile); err != nil {
			k.c.Log.Warn("the plots of an incident cannot be read", "incident", id, "err", err)
			course = nil
		}
	}
	var b bytes.Buffer
	if err := postmortem.Markdown(&b, &i, course); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
