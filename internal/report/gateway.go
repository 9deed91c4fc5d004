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

// gatewayRows returns a gateway's values beside the engines'.
func gatewayRows(d *diagnose.Diagnosis, index int) (rows [][]string) {
	for _, s := range gatewaySignals {
		engines := ""
		if s.engine != nil {
			engines = formatEngines(d, s.engine)
		}
		if now, _ := d.Reading(index, s.gateway); now.OK {
			rows = append(rows, []string{s.gateway.Title, indicator.Format(now, s.gateway.Unit), engines})
			continue
		}
		parts := d.Parts(index, s.gateway)
		for _, name := range slices.Sorted(maps.Keys(parts)) {
			title := s.gateway.Title
			if len(parts) > 1 {
				title += ", " + name
			}
			rows = append(rows, []string{title, indicator.FormatNumber(parts[name], s.gateway.Unit), engines})
		}
	}
	return rows
}

// formatEngines returns a signal of all servers: the sum of a rate, the maximum of others; "" without a reading.
func formatEngines(d *diagnose.Diagnosis, s *indicator.Signal) string {
	var total indicator.Value
	for i := range d.Targets {
		now, _ := d.Reading(i, s)
		switch {
		case !now.OK || !d.Targets[i].Serves():
		case total.OK && s.Unit == indicator.RequestsPerSecond:
			total.V += now.V
		case !total.OK || now.V > total.V:
			total = now
		}
	}
	if !total.OK {
		return ""
	}
	return indicator.Format(total, s.Unit)
}
