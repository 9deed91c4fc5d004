// Package scrape fetches one target's metrics page and parses it.
//
// [Client.Fetch] requests a page as Prometheus does, bounded in time and size. [Parse] and [ParseSeries] read the
// Prometheus text format and OpenMetrics with Prometheus' own parser, and keep the valid lines of a page that the
// parser refuses. [Client.Facts] queries an inference server's other endpoints.
//
// The package stores nothing and knows nothing of time series: package embedded
// turns pages into samples, package recording keeps them as they came. The
// command line, the monitor and embedded call it.
package scrape
