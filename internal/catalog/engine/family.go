package engine

import (
	"encoding/csv"
	"slices"
	"strings"
)

// Type is the type of a metric family.
type Type string

// The types of families.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram" // classic: _bucket, _sum and _count
	Summary   Type = "summary"   // without quantiles, as Python's client makes them: _sum and _count
)

// A Family describes one metric family.
type Family struct {
	Name   string // as a server exposes it, without a histogram's suffix: "vllm:prompt_tokens_total"
	Type   Type
	Engine ID     // "" for families of a frontend's HTTP server or process, and of a router
	Kind   string // the engine's servers that have it

	// Since and Last are the first and the last release that have it, among the releases that were read. Last is "" if
	// the newest one has it. From Hidden on, it is exposed only with --show-hidden-metrics-for-version.
	Since, Last, Hidden string

	Labels []string // without the scraper's; "*" stands for many
	Needs  string   // the option or feature that the family needs

	// Unit is the unit of its values if the name does not show it, "none" if the name shows a wrong one: "s",
	// "requests", "ratio".
	Unit string

	// Replacement is the family that carries the same values now, and Instead is the advice where no family does;
	// both are "" for names in use.
	Replacement string
	Instead     string
}

// ParseFamilies reads an engine's table. Its columns may be in any order, by the names in the header. Missing columns
// are empty.
func ParseFamilies(table string) []Family {
	rows := readTable(table)
	var out []Family
	for _, row := range rows[min(1, len(rows)):] {
		at := func(column string) string {
			if i := slices.Index(rows[0], column); i >= 0 {
				return row[i]
			}
			return ""
		}
		f := Family{
			Name: at("name"), Type: Type(at("type")), Kind: at("engine"), Since: at("since"), Last: at("last"),
			Hidden: at("hidden"), Needs: at("needs"), Unit: at("unit"), Replacement: at("replacement"),
			Instead: at("instead"),
		}
		if l := at("labels"); l != "" {
			f.Labels = strings.Split(l, ";")
		}
		out = append(out, f)
	}
	return out
}

// Rows returns the rows of a compiled-in table, without its header. A table is CSV with comments after #. One that does
// not parse has no rows; tests read all tables.
func Rows(table string) [][]string {
	rows := readTable(table)
	return rows[min(1, len(rows)):]
}

// readTable returns the rows of a table, the header first.
func readTable(table string) [][]string {
	r := csv.NewReader(strings.NewReader(table))
	r.Comment = '#'
	rows, _ := r.ReadAll() // nil if it does not parse
	return rows
}

// Gone reports whether no server of the newest release exposes the family.
func (f Family) Gone() bool { return f.Last != "" || f.Hidden != "" }

// Released reports whether a release, such as "0.10" or "0.10.2", exposes the family by default, apart from the
// features in Needs. A release without a patch stands for all of its patches.
func (f Family) Released(release string) bool {
	r := Release(release)
	compare := func(other string) int {
		o := Release(other)
		if r.Minor() == r {
			o = o.Minor()
		}
		return o.Compare(r)
	}
	return compare(f.Since) <= 0 && (f.Last == "" || compare(f.Last) >= 0) && (f.Hidden == "" || compare(f.Hidden) > 0)
}

// Samples returns the names of the family's series on a page; with created, also those that tell when they began
// (_created).
func (f Family) Samples(created bool) []string {
	var out []string
	switch f.Type {
	case Histogram:
		out = []string{f.Name + "_bucket", f.Name + "_sum", f.Name + "_count"}
	case Summary:
		out = []string{f.Name + "_sum", f.Name + "_count"}
	default:
		out = []string{f.Name}
	}
	switch {
	case !created:
	case f.Type == Counter:
		out = append(out, strings.TrimSuffix(f.Name, "_total")+"_created")
	case f.Type != Gauge:
		out = append(out, f.Name+"_created")
	}
	return out
}
