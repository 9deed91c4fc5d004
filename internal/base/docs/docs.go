// Package docs locates this build's documents, to which reports, alerts and dashboards link.
package docs

import (
	"cmp"

	"github.com/sixty-dev/sixty/internal/base/version"
)

// URL is the address of this build's documents. A release links to the documents of its tag, which do not change.
var URL = "https://github.com/sixty-dev/sixty/blob/" + version.Get().Ref() + "/docs/"

// Runbooks locates the runbooks: URL, then a pathology's id, then Suffix. The zero value is their published address.
type Runbooks struct{ URL, Suffix string }

// PublishedRunbooks are the project's documentation.
var PublishedRunbooks = Runbooks{URL + "pathologies/", ".md"}

// PageURL returns the address of a pathology's page.
func (r Runbooks) PageURL(id string) string {
	r = cmp.Or(r, PublishedRunbooks)
	return r.URL + id + r.Suffix
}
