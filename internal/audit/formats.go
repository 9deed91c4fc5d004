package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/url"
	"strings"

	"github.com/sixty-dev/sixty/internal/audit/checks"
	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/render"
)

// documentation is where people read what the checks mean.
const documentation = "https://github.com/sixty-dev/sixty/blob/main/docs/audit.md"

// SARIF writes the findings in the Static Analysis Results Interchange Format
// 2.1.0 (OASIS), which GitHub's code scanning and most editors read.
func (r *Report) SARIF(w io.Writer) error {
	type m = map[string]any
	text := func(s string) m { return m{"text": s} }
	rules, results := []m{}, []m{}
	at := map[string]int{}
	for i, c := range checks.Checks() {
		at[c.ID] = i
		rules = append(rules, m{
			"id": c.ID, "shortDescription": text(c.Doc), "helpUri": documentation + "#the-checks",
			"defaultConfiguration": m{"level": sarifLevels[c.Severity]},
		})
	}
	for _, f := range r.Findings {
		place := m{"artifactLocation": m{"uri": (&url.URL{Path: strings.ReplaceAll(f.File, `\`, "/")}).String()}}
		if f.Line > 0 {
			place["region"] = m{"startLine": f.Line, "snippet": text(f.Fragment)}
		}
		results = append(results, m{
			"ruleId": f.Check, "ruleIndex": at[f.Check], "level": sarifLevels[f.Severity],
			"message": text(f.Why + "; try: " + f.Fix),
			"locations": []m{{"physicalLocation": place,
				"logicalLocations": []m{{"fullyQualifiedName": f.Where}}}},
			"partialFingerprints": m{"sixty/v1": fingerprint(f)},
		})
	}
	done := m{"executionSuccessful": len(r.Errors) == 0}
	var unread []m
	for _, err := range r.Errors {
		unread = append(unread, m{"level": "error", "message": text(err.Error())})
	}
	if len(unread) > 0 {
		done["toolExecutionNotifications"] = unread
	}
	return render.JSON(w, m{
		"version": "2.1.0", "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
		"runs": []m{{
			"tool": m{"driver": m{
				"name": "sixty audit", "version": version.This().Version, "informationUri": documentation,
				"rules": rules,
			}},
			"invocations": []m{done}, "results": results,
		}},
	})
}

var sarifLevels = map[catalog.Severity]string{catalog.Page: "error", catalog.Ticket: "warning", catalog.Info: "note"}

// fingerprint tells a finding from others while lines move.
func fingerprint(f checks.Problem) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{f.File, f.Where, f.Check, f.Fragment}, "\x00")))
	return hex.EncodeToString(sum[:16])
}
