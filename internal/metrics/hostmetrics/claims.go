package hostmetrics

import (
	"slices"

	"github.com/sixty-dev/sixty/internal/metrics/hostmetrics/gpu"
)

// processes reads the operating system's processes.
type processes interface {
	// listeningProcesses lists the processes that hold the listening socket of a TCP port; none if that is not visible.
	listeningProcesses(port string) []int
	// parentProcess returns the parent of a process, 0 without a visible parent.
	parentProcess(pid int) int
	// commandName returns the name of a process' program, "" if it is not visible.
	commandName(pid int) string
}

// forwarders are programs that listen on this machine for a server elsewhere.
var forwarders = []string{"ssh", "sshd", "autossh", "kubectl", "oc", "k9s", "cloudflared", "gcloud"}

// claims are the indexes of the GPUs that each server was last seen to compute on.
type claims map[string][]int

// divideReadings assigns GPUs to servers. A server gets the GPUs with a process that descends from the process that
// listens on the server's port. If no such process is visible (another user's, or in a container with other process
// IDs), the server keeps its last GPUs, or gets the GPUs that no other server claims. A forwarded port gets none.
func (c *claims) divideReadings(readings []gpu.Reading, servers []Server, p processes) map[string][]gpu.Reading {
	if *c == nil {
		*c = claims{}
	}
	owners, elsewhere := map[int][]string{}, map[string]bool{} // servers, by the process that listens for them
	for _, s := range servers {
		for _, pid := range p.listeningProcesses(serverPort(s)) {
			owners[pid] = append(owners[pid], s.Name)
			elsewhere[s.Name] = elsewhere[s.Name] || slices.Contains(forwarders, p.commandName(pid))
		}
	}
	now, taken := claims{}, map[int]bool{}
	for _, g := range readings {
		for _, pid := range g.Processes {
			for _, s := range ancestorOwners(pid, owners, p) {
				now[s] = append(now[s], g.Index)
			}
		}
	}
	for _, s := range servers {
		if len(now[s.Name]) > 0 {
			(*c)[s.Name] = now[s.Name]
		}
		for _, at := range (*c)[s.Name] {
			taken[at] = true
		}
	}
	out := map[string][]gpu.Reading{}
	for _, s := range servers {
		if elsewhere[s.Name] {
			continue
		}
		mine, known := (*c)[s.Name]
		for _, g := range readings {
			if known && slices.Contains(mine, g.Index) || !known && !taken[g.Index] {
				out[s.Name] = append(out[s.Name], g)
			}
		}
	}
	return out
}

// ancestorOwners returns the servers that a process, or its nearest listening ancestor, listens for.
func ancestorOwners(pid int, owners map[int][]string, p processes) []string {
	const deepest = 64
	for range deepest {
		if pid <= 1 {
			break
		}
		if of := owners[pid]; of != nil {
			return of
		}
		pid = p.parentProcess(pid)
	}
	return nil
}
