package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/audit/checks"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/version"
)

// documentation is where people read what the checks mean.
const documentation = "https://github.com/sixty-dev/sixty/blob/main/docs/audit.md"

// SARIF writes the findings in the Static Analysis Results Interchange Format
// 2.1.0 (OASIS), which GitHub's code scanning and most editors read.
func (r *Report) SARIF(w io.Writer) error {
	type message struct {
		Text string `json:"text"`
	}
	type rule struct {
		ID            string            `json:"id"`
		Short         message           `json:"shortDescription"`
		HelpURI       string            `json:"helpUri"`
		Configuration map[string]string `json:"defaultConfiguration"`
	}
	type region struct {
		Line    int     `json:"startLine"`
		Column  int     `json:"startColumn"`
		Snippet message `json:"snippet"`
	}
	type physical struct {
		Artifact map[string]string `json:"artifactLocation"`
		Region   *region           `json:"region,omitempty"`
	}
	type location struct {
		Physical physical            `json:"physicalLocation"`
		Logical  []map[string]string `json:"logicalLocations"`
	}
	type result struct {
		Rule         string            `json:"ruleId"`
		Index        int               `json:"ruleIndex"`
		Level        string            `json:"level"`
		Message      message           `json:"message"`
		Locations    []location        `json:"locations"`
		Fingerprints map[string]string `json:"partialFingerprints"`
	}
	type notification struct {
		Level   string  `json:"level"`
		Message message `json:"message"`
	}
	type invocation struct {
		Successful    bool           `json:"executionSuccessful"`
		Notifications []notification `json:"toolExecutionNotifications,omitempty"`
	}
	rules, results := []rule{}, []result{}
	for _, c := range checks.Checks() {
		rules = append(rules, rule{
			c.ID,
			message{c.Doc},
			documentation + "#the-checks",
			map[string]string{"level": sarifLevels[c.Severity]},
		})
	}
	for _, f := range r.Findings {
		place := physical{Artifact: map[string]string{"uri": (&url.URL{Path: strings.ReplaceAll(f.File, `\`,
			"/")}).String()}}
		if f.Line > 0 {
			place.Region = &region{f.Line, max(f.Column, 1), message{f.Fragment}}
		}
		results = append(results, result{
			Rule: f.Check, Index: slices.IndexFunc(checks.Checks(), func(c *checks.Check) bool { return c.ID == f.Check }),
			Level:        sarifLevels[f.Severity],
			Message:      message{sentence(f.Why) + " " + sentence(f.Fix)},
			Locations:    []location{{place, []map[string]string{{"fullyQualifiedName": f.Where}}}},
			Fingerprints: map[string]string{"sixty/v1": fingerprint(f)},
		})
	}
	done := invocation{Successful: len(r.Errors) == 0}
	for _, err := range r.Errors {
		done.Notifications = append(done.Notifications, notification{"error", message{err.Error()}})
	}
	return render.JSON(w, map[string]any{
		"version": "2.1.0", "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
		"runs": []any{map[string]any{
			"tool": map[string]any{"driver": map[string]any{
				"name":    "sixty audit",
				"version": version.This().Version, "informationUri": documentation, "rules": rules,
			}},
			"invocations": []invocation{done}, "columnKind": "unicodeCodePoints", "results": results,
		}},
	})
}

var sarifLevels = map[catalog.Severity]string{catalog.Page: "error", catalog.Ticket: "warning", catalog.Info: "note"}

// fingerprint tells a finding from others while lines move.
func fingerprint(f checks.Finding) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{f.File, f.Path, f.Check, f.Fragment}, "\x00")))
	return hex.EncodeToString(sum[:16])
}

type junitCase struct {
	Name    string       `xml:"name,attr"`
	Class   string       `xml:"classname,attr"`
	File    string       `xml:"file,attr,omitempty"`
	Line    int          `xml:"line,attr,omitempty"`
	Failure *junitReason `xml:"failure,omitempty"`
	Error   *junitReason `xml:"error,omitempty"`
	Out     string       `xml:"system-out,omitempty"`
}

type junitReason struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Cases    []junitCase `xml:"testcase"`
}

// JUnit writes the findings as JUnit's XML, as CI servers read it: a suite for each
// file, a failure for each finding of at least a severity, and a case that passes
// for each other one and for a file without any.
func (r *Report) JUnit(w io.Writer, least catalog.Severity) error {
	var out struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	out.Name = "sixty audit"
	for _, name := range r.Files {
		s := junitSuite{Name: render.Clean(name)}
		for _, f := range r.Findings {
			if f.File != name {
				continue
			}
			c := junitCase{Name: render.Clean(f.Check + ": " + f.Where), Class: s.Name, File: s.Name, Line: f.Line}
			text := render.Clean(fmt.Sprintf("%s:%d:%d: %s: %s %s Fix: %s", f.File, f.Line, f.Column, f.Severity,
				f.Fragment, sentence(f.Why), sentence(f.Fix)))
			if f.Severity >= least && !f.Doubt {
				c.Failure = &junitReason{f.Severity.String(), render.Clean(sentence(f.Why)), text}
				s.Failures++
			} else {
				c.Out = text
			}
			s.Cases = append(s.Cases, c)
		}
		if len(s.Cases) == 0 {
			s.Cases = []junitCase{{Name: "nothing found", Class: s.Name, File: s.Name}}
		}
		s.Tests = len(s.Cases)
		out.Suites = append(out.Suites, s)
	}
	if len(r.Errors) > 0 {
		s := junitSuite{Name: "files that cannot be read", Tests: len(r.Errors), Errors: len(r.Errors)}
		for _, err := range r.Errors {
			text := render.Clean(err.Error())
			s.Cases = append(s.Cases, junitCase{Name: text, Class: s.Name, Error: &junitReason{
				"unreadable", text,
				text,
			}})
		}
		out.Suites = append(out.Suites, s)
	}
	for _, s := range out.Suites {
		out.Tests, out.Failures, out.Errors = out.Tests+s.Tests, out.Failures+s.Failures, out.Errors+s.Errors
	}
	b, err := xml.MarshalIndent(out, "", "  ")
	if err != nil {
		return fmt.Errorf("write JUnit: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, b)
	return err
}

// GitHub writes the findings as workflow commands, which GitHub Actions shows as
// annotations on the lines of a pull request.
func (r *Report) GitHub(w io.Writer) error {
	commands := map[catalog.Severity]string{catalog.Page: "error", catalog.Ticket: "warning", catalog.Info: "notice"}
	// https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts
	text := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	var b strings.Builder
	for _, f := range r.Findings {
		place := ""
		if f.Line > 0 {
			place = fmt.Sprintf(",line=%d,col=%d", f.Line, max(f.Column, 1))
		}
		fmt.Fprintf(&b, "::%s file=%s%s,title=%s::%s\n", commands[f.Severity], property.Replace(f.File), place,
			property.Replace("sixty audit: "+f.Check), text.Replace(f.Where+": "+sentence(f.Why)+" "+sentence(f.Fix)))
	}
	for _, err := range r.Errors {
		fmt.Fprintf(&b, "::error title=sixty audit::%s\n", text.Replace(err.Error()))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
