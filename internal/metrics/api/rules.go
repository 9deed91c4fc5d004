package api

import (
	"context"
	"errors"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// A Rule is a rule that a server evaluates.
type Rule struct {
	File, Group string
	Alert       string // "" for a recording rule
	Record      string // "" for an alert
	Expr        string
	For         time.Duration
	Annotations map[string]string
}

// ErrNoRules is wrapped by the error for a server that answers queries but lists no rules, such as a query front end.
var ErrNoRules = errors.New("the server shows no rules")

// Rules lists the rules that the server evaluates.
func (c *Client) Rules(ctx context.Context) ([]Rule, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	result, err := c.api.Rules(ctx, nil)
	if err != nil {
		return nil, errors.Join(ErrNoRules, err)
	}
	var out []Rule
	for _, g := range result.Groups {
		for _, r := range g.Rules {
			switch r := r.(type) {
			case v1.AlertingRule:
				out = append(out, Rule{
					File: g.File, Group: g.Name, Alert: r.Name, Expr: r.Query,
					For: time.Duration(r.Duration * float64(time.Second)), Annotations: stringMap(r.Annotations),
				})
			case v1.RecordingRule:
				out = append(out, Rule{File: g.File, Group: g.Name, Record: r.Name, Expr: r.Query})
			}
		}
	}
	return out, nil
}

func stringMap(l model.LabelSet) map[string]string {
	m := map[string]string{}
	for k, v := range l {
		m[string(k)] = string(v)
	}
	return m
}
