package serve

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/generate/scrapeconfig"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
)

// dryRunTime is how long a dry run waits for discoveries.
const dryRunTime = 10 * time.Second

// listedPerReason bounds the candidates that a dry run names for each reason.
const listedPerReason = 5

// DryRun writes the discovered targets, and why other candidates are no targets, after it has checked the objectives
// and thresholds. It scrapes nothing. It returns an error if there is no target.
func DryRun(ctx context.Context, cfg Config, w io.Writer) error {
	file, err := cfg.load()
	if err != nil {
		return err
	}
	if _, err := cfg.Settings(&file.Sixty); err != nil {
		return err
	}
	// problems are printed here
	all, problems, err := collect.FindTargets(ctx, file.Prometheus, dryRunTime, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	urls, reasons := map[string]string{}, map[string][]string{}
	for _, c := range all {
		if c.Target.IsEmpty() {
			why := scrapeconfig.WhyDropped(c.Dropped.Regex.String(), string(c.Dropped.Action))
			if why == "" {
				why = fmt.Sprintf("Job %s drops it: %s %s", c.Job, c.Dropped.Action, c.Dropped.Regex)
			}
			reasons[why] = append(reasons[why], nameCandidate(&c))
			continue
		}
		at := c.Target.Get("__scheme__") + "://" + c.Target.Get("__address__") + c.Target.Get("__metrics_path__")
		urls[c.Job+"\t"+c.Target.Get("instance")] = at
	}
	fmt.Fprintf(w, "Targets: %d of %d containers and addresses found.\n", len(urls), len(all))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, name := range slices.Sorted(maps.Keys(urls)) {
		fmt.Fprintf(t, "  %s\t%s\n", name, urls[name])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		names := reasons[why]
		fmt.Fprintf(w, "\nNo target, %d: %s.\n", len(names), why)
		for _, n := range names[:min(len(names), listedPerReason)] {
			fmt.Fprintln(w, "  "+n)
		}
		if more := len(names) - listedPerReason; more > 0 {
			fmt.Fprintf(w, "  and %d more\n", more)
		}
	}
	wayOut := "select the pods with --selector and --namespace, or give the servers' URLs"
	for _, p := range problems {
		if strings.Contains(p.Text, "in-cluster configuration") {
			wayOut = "outside a cluster, give its configuration with --kubeconfig, such as --kubeconfig ~/.kube/config"
		}
		fmt.Fprintf(w, "\nDiscovery of job %s by %s: %s\n", p.Job, p.Mechanism, p.Text)
	}
	if len(urls) == 0 {
		return hint.With(fmt.Errorf("no target was found"), wayOut)
	}
	return nil
}

// nameCandidate names a candidate: a container with its image and port, or an address.
func nameCandidate(c *collect.Candidate) string {
	pod := func(label string) string { return c.Discovered.Get("__meta_kubernetes_pod_" + label) }
	if pod("name") == "" {
		return c.Discovered.Get("__address__")
	}
	port := strings.TrimSpace(pod("container_port_name") + " " + pod("container_port_number"))
	if port == "" {
		port = "not declared"
	}
	return fmt.Sprintf("%s/%s, container %s, image %s, port %s",
		c.Discovered.Get("__meta_kubernetes_namespace"), pod("name"), pod("container_name"), pod("container_image"),
		port)
}
