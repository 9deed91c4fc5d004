package dialect

import "strings"

// HostInfo marks the pages that sixty writes about its own machine, so that they are not mistaken for a server without
// metrics, or for something that the deployment measures.
const HostInfo = "sixty_host_info"

const gpus, host = "-gpus", "-host"

// HostOf returns the instance of the page about a machine's operating system.
func HostOf(name string) string { return name + host }

// GPUsOf returns the instance of a page with the GPUs of one server only, which sixty reads itself on the server's
// machine.
func GPUsOf(instance string) string { return instance + gpus }

// ServerOf returns the instance whose GPUs a page holds.
func ServerOf(instance string) (server string, ok bool) { return strings.CutSuffix(instance, gpus) }
