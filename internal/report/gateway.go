package report

import (
	"maps"
	"slices"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
)

// gatewaySignals are the signals shown of a gateway, each with the engine's signal for the same quantity, or nil.
var gatewaySignals = []struct{ gateway, engine *indicator.Signal }{
	{indicator.GatewayOffered, nil},
	{indicator.GatewayEnded, indicator.CompletionRate},
	{indicator.GatewaySuccess, nil},
	{indicator.GatewayErrors, nil},
	{indicator.GatewayGaveUp, nil},
	{indicator.GatewayOpen, nil},
	{indicator.GatewayTTFTMean, indicator.TTFTMean},
	{indicator.GatewayTTFTP50, indicator.TTFTP50},
	{indicator.GatewayTTFTP95, indicator.TTFTP95},
	{indicator.GatewayNoFirst, nil},
	{indicator.GatewayNoFirstWait, nil},
	{indicator.GatewayQueueMean, nil},
	{indicator.GatewayConnect, nil},
	{indicator.GatewayE2EMean, indicator.E2EMean},
	{indicator.GatewayE2EP50, indicator.E2EP50},
	{indicator.GatewayE2EP95, indicator.E2EP95},
	{indicator.GatewayOutside, nil},
}

// gatewayRows shows a gateway's values beside the engines': the sum of rates, the maximum of others.
func gatewayRows(d *diagnose.Diagnosis, index int) (rows [][]string) {
	for _, s := range gatewaySignals {
		in := ""
		if s.engine != nil {
			in = engines(d, s.engine)
		}
		if now, _ := d.Reading(index, s.gateway); now.OK {
			rows = append(rows, []string{s.gateway.Title, indicator.Format(now, s.gateway.Unit), in})
			continue
		}
		parts := d.Parts(index, s.gateway)
		for _, name := range slices.Sorted(maps.Keys(parts)) {
			title := s.gateway.Title
			if len(parts) > 1 {
				title += ", " + name
			}
			rows = append(rows, []string{title, indicator.FormatNumber(parts[name], s.gateway.Unit), in})
		}
	}
	return rows
}

// engines is what the servers measure.
func engines(d *diagnose.Diagnosis, s *indicator.Signal) string {
	var all indicator.Value
	for i := range d.Targets {
		now, _ := d.Reading(i, s)
		switch {
		case !now.OK || !d.Targets[i].Serves():
		case all.OK && s.Unit == indicator.RequestsPerSecond:
			all.V += now.V
		case !all.OK || now.V > all.V:
			all = now
		}
	}
	if !all.OK {
		return ""
	}
	return indicator.Format(all, s.Unit)
}
