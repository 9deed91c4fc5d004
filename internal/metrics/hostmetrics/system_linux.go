package hostmetrics

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"github.com/prometheus/procfs/blockdevice"
	"golang.org/x/sys/unix"

	"github.com/sixty-dev/sixty/internal/metrics/hostmetrics/gpu"
)

// system reads /proc and /sys.
type system struct {
	proc      procfs.FS
	disks     blockdevice.FS
	readable  bool
	holders   map[string][]int // processes with a listening socket, by port
	holdersAt time.Time        // when they were found
}

// holdersFor is how long the listening processes are cached, because finding them means reading every open file.
const holdersFor = 30 * time.Second

func newSystem(proc, sys string) system {
	p, err := procfs.NewFS(proc)
	b, berr := blockdevice.NewFS(proc, sys)
	return system{proc: p, disks: b, readable: err == nil && berr == nil}
}

func (s *system) listeningProcesses(port string) []int {
	gone := slices.ContainsFunc(s.holders[port], func(pid int) bool { return s.parentProcess(pid) == 0 })
	if s.readable && (gone || time.Since(s.holdersAt) > holdersFor) {
		s.holders, s.holdersAt = s.findListeners(), time.Now()
	}
	return s.holders[port]
}

// findListeners finds the processes that hold listening sockets. Other users' processes are not visible.
func (s *system) findListeners() map[string][]int {
	const listens = 10 // TCP_LISTEN
	ports := map[string]string{}
	for _, table := range []func() (procfs.NetTCP, error){s.proc.NetTCP, s.proc.NetTCP6} {
		lines, _ := table() // a machine without IPv6 has no such table
		for _, l := range lines {
			if l.St == listens {
				ports["socket:["+strconv.FormatUint(l.Inode, 10)+"]"] = strconv.FormatUint(l.LocalPort, 10)
			}
		}
	}
	out := map[string][]int{}
	all, _ := s.proc.AllProcs()
	for _, p := range all {
		open, _ := p.FileDescriptorTargets()
		for _, target := range open {
			if port, ok := ports[target]; ok && !slices.Contains(out[port], p.PID) {
				out[port] = append(out[port], p.PID)
			}
		}
	}
	return out
}

func (s *system) parentProcess(pid int) int {
	p, err := s.proc.Proc(pid)
	if err != nil {
		return 0
	}
	stat, err := p.Stat()
	if err != nil {
		return 0
	}
	return stat.PPID
}

func (s *system) commandName(pid int) string {
	p, err := s.proc.Proc(pid)
	if err != nil {
		return ""
	}
	name, _ := p.Comm() // "" if the process ended
	return name
}

// fetchPage writes node_exporter's metrics that dashboards read: processor, memory, disks, file systems and network.
func (s *system) fetchPage(host string) []byte {
	if !s.readable {
		return nil
	}
	var p gpu.Page
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		p.Add("node_uname_info", 1, "machine", unix.ByteSliceToString(u.Machine[:]), "nodename", host,
			"release", unix.ByteSliceToString(u.Release[:]), "sysname", unix.ByteSliceToString(u.Sysname[:]))
	}
	if stat, err := s.proc.Stat(); err == nil {
		for _, n := range slices.Sorted(maps.Keys(stat.CPU)) {
			c, modes := stat.CPU[n], []string{"idle", "iowait", "irq", "nice", "softirq", "steal", "system", "user"}
			for i, v := range []float64{c.Idle, c.Iowait, c.IRQ, c.Nice, c.SoftIRQ, c.Steal, c.System, c.User} {
				p.Add("node_cpu_seconds_total", v, "cpu", strconv.FormatInt(n, 10), "mode", modes[i])
			}
		}
	}
	if load, err := s.proc.LoadAvg(); err == nil {
		p.Add("node_load5", load.Load5)
	}
	if m, err := s.proc.Meminfo(); err == nil && m.MemTotalBytes != nil && m.MemAvailableBytes != nil {
		p.Add("node_memory_MemTotal_bytes", float64(*m.MemTotalBytes))
		p.Add("node_memory_MemAvailable_bytes", float64(*m.MemAvailableBytes))
	}
	disks, _ := s.disks.ProcDiskstats() // here and below, the page lacks unreadable parts
	for _, d := range disks {
		if slices.ContainsFunc(ignoredDevices, func(p string) bool { return strings.HasPrefix(d.DeviceName, p) }) {
			continue
		}
		const sector, milli = 512, 1e-3
		p.Add("node_disk_io_time_seconds_total", milli*float64(d.IOsTotalTicks), "device", d.DeviceName)
		p.Add("node_disk_read_bytes_total", sector*float64(d.ReadSectors), "device", d.DeviceName)
		p.Add("node_disk_written_bytes_total", sector*float64(d.WriteSectors), "device", d.DeviceName)
	}
	s.addFileSystems(&p)
	devices, _ := s.proc.NetDev()
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		l := devices[name]
		p.Add("node_network_receive_bytes_total", float64(l.RxBytes), "device", name)
		p.Add("node_network_receive_drop_total", float64(l.RxDropped), "device", name)
		p.Add("node_network_receive_errs_total", float64(l.RxErrors), "device", name)
		p.Add("node_network_transmit_bytes_total", float64(l.TxBytes), "device", name)
		p.Add("node_network_transmit_drop_total", float64(l.TxDropped), "device", name)
		p.Add("node_network_transmit_errs_total", float64(l.TxErrors), "device", name)
	}
	return p.Bytes()
}

// ignoredDevices are devices that node_exporter ignores, because the devices below them are counted.
var ignoredDevices = []string{"ram", "loop", "fd", "zram"}

// localFileSystems are the types of file systems whose usage is read; network file systems may block forever.
var localFileSystems = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "vfat", "overlay"}

func (s *system) addFileSystems(p *gpu.Page) {
	const most = 64
	mounts, _ := s.proc.GetMounts()
	seen := map[string]bool{}
	for _, m := range mounts {
		var st unix.Statfs_t
		if !slices.Contains(localFileSystems, m.FSType) || seen[m.MajorMinorVer] || len(seen) == most ||
			unix.Statfs(m.MountPoint, &st) != nil {
			continue
		}
		seen[m.MajorMinorVer] = true // the same file system may be mounted again
		p.Add("node_filesystem_avail_bytes", float64(st.Bavail)*float64(st.Bsize), "device", m.Source, "fstype",
			m.FSType, "mountpoint", m.MountPoint)
		p.Add("node_filesystem_size_bytes", float64(st.Blocks)*float64(st.Bsize), "device", m.Source, "fstype",
			m.FSType, "mountpoint", m.MountPoint)
	}
}
