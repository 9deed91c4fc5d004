package gpuhardwareerrors

import (
	"fmt"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// xids explains the codes that inference servers meet most (NVIDIA's XID catalogue).
var xids = map[string]string{
	"13": "an exception in a kernel: most often software, hardware if it follows the GPU",
	"31": "a memory access fault of a kernel: most often software",
	"43": "the process was stopped by a fault of its own",
	"45": "the process was ended while it had work",
	"48": "an uncorrectable memory error",
	"63": "a memory page or row was retired: takes effect at the next reset",
	"64": "a memory page or row could not be retired",
	"74": "an NVLink error",
	"79": "the GPU has fallen off the bus: power, heat, slot or board",
	"94": "a contained memory error: the process is lost, the GPU is not",
	"95": "an uncontained memory error: reset the GPU",
}

func refineFinding(p *catalog.Pass) {
	var found []string
	if code, ok := p.Measured(indicator.XID); ok {
		text := "XID " + catalog.Whole(code)
		if what, ok := xids[catalog.Whole(code)]; ok {
			text += " (" + what + ")"
		}
		found = append(found, text)
	}
	if n, ok := p.Measured(indicator.ECCErrors); ok {
		found = append(found, fmt.Sprintf("%s uncorrectable memory errors", catalog.Whole(n)))
	}
	remap, failed := p.Measured(indicator.RemapFailures)
	if failed && remap > 0.5 {
		found = append(found, "a faulty memory row that could not be remapped")
	}
	link := false
	for _, s := range []*indicator.Signal{indicator.NVLinkErrors, indicator.PCIeReplays} {
		if v, ok := p.Measured(s); ok {
			found = append(found, s.Title+" "+indicator.FormatNumber(v, s.Unit))
			link = link || v > 1
		}
	}
	if len(found) > 0 {
		p.Summary = "The GPU reports " + strings.Join(found, "; ")
	}
	p.Reason("The code of the last XID error stays until the next one, so only a change counts. The kernel log " +
		"has its time and process.")
	p.Reroute(catalog.Drain, "no request fails on the others")
	p.Fix(catalog.Fix{
		Summary:  "Save dmesg and nvidia-smi -q, then reset the GPU or reboot the node",
		Command:  "dmesg -T | grep -i xid; nvidia-smi -q > nvidia-smi.txt",
		Tradeoff: "requests in flight are lost",
		Verify:   "no new XID or ECC errors under load",
	})
	if failed && remap > 0.5 {
		p.Fix(catalog.Fix{
			Summary: "Replace the GPU: it has no spare memory rows left", Tradeoff: "hardware",
			Verify: "no row remapping failure",
		})
	}
	if link {
		p.Fix(catalog.Fix{
			Summary: "Check the links: reseat the board or bridge, replace cables, nvidia-smi nvlink -e and lspci " +
				"-vv for the negotiated width and speed",
			Tradeoff: "the node is down meanwhile",
			Verify:   "NVLink CRC errors and PCIe replays are near 0 under load",
		})
	}
}
