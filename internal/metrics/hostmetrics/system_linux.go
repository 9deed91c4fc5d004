package hostmetrics

import (
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
	proc    procfs.FS
	disks   blockdevice.FS
	there   bool
	holders map[string][]int // of the sockets that listen, by port
	looked  time.Time        // when they were looked for
}

// lookAgain is after how long the processes that listen are looked for again: that means
// to look at every file that is open.
const lookAgain = 30 * time.Second

func newSystem(proc, sys string) system {
	p, err := procfs.NewFS(proc)
	b, berr := blockdevice.NewFS(proc, sys)
	return system{proc: p, disks: b, there: err == nil && berr == nil}
}

func (s *system) listening(port string) []int {
	gone := slices.ContainsFunc(s.holders[port], func(pid int) bool { return s.parent(pid) == 0 })
	if s.there && (gone || time.Since(s.looked) > lookAgain) {
		s.holders, s.looked = s.findListeners(), time.Now()
	}
	return s.holders[port]
}

// findListeners finds the processes that hold the sockets that listen. Another user's cannot be
// seen.
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

func (s *system) parent(pid int) int {
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

func (s *system) command(pid int) string {
	p, err := s.proc.Proc(pid)
	if err != nil {
		return ""
	}
	name, _ := p.Comm() // "" for one that is gone
	return name
}

// page writes what node_exporter would show: processor, memory, disks, file systems and
// network, as far as dashboards read it.
func (s *system) page(host string) []byte {
	if !s.there {
		return nil
	}
	var w nodePage
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		w.family("node_uname_info", "gauge")
		w.add(1, "machine", unix.ByteSliceToString(u.Machine[:]), "nodename", host,
			"release", unix.ByteSliceToString(u.Release[:]), "sysname", unix.ByteSliceToString(u.Sysname[:]))
	}
	s.processor(&w)
	s.memory(&w)
	s.disk(&w)
	s.fileSystems(&w)
	s.network(&w)
	return w.b
}

func (s *system) processor(w *nodePage) {
	if stat, err := s.proc.Stat(); err == nil {
		w.family("node_cpu_seconds_total", "counter")
		cpus := make([]int64, 0, len(stat.CPU))
		for n := range stat.CPU {
			cpus = append(cpus, n)
		}
		slices.Sort(cpus)
		for _, n := range cpus {
			c, cpu := stat.CPU[n], strconv.FormatInt(n, 10)
			for _, m := range []struct {
				mode string
				v    float64
			}{
				{"idle", c.Idle}, {"iowait", c.Iowait}, {"irq", c.IRQ}, {"nice", c.Nice},
				{"softirq", c.SoftIRQ}, {"steal", c.Steal}, {"system", c.System}, {"user", c.User},
			} {
				w.add(m.v, "cpu", cpu, "mode", m.mode)
			}
		}
	}
	if load, err := s.proc.LoadAvg(); err == nil {
		w.one("node_load5", "gauge", load.Load5)
	}
}

func (s *system) memory(w *nodePage) {
	info, err := s.proc.Meminfo()
	if err != nil {
		return
	}
	if total, available := info.MemTotalBytes, info.MemAvailableBytes; total != nil && available != nil {
		w.one("node_memory_MemTotal_bytes", "gauge", float64(*total))
		w.one("node_memory_MemAvailable_bytes", "gauge", float64(*available))
	}
}

// passed are devices that node_exporter leaves out: what lies beneath them is counted.
var passed = []string{"ram", "loop", "fd", "zram"}

func (s *system) disk(w *nodePage) {
	disks, err := s.disks.ProcDiskstats()
	if err != nil {
		return
	}
	disks = slices.DeleteFunc(disks, func(d blockdevice.Diskstats) bool {
		return slices.ContainsFunc(passed, func(p string) bool { return strings.HasPrefix(d.DeviceName, p) })
	})
	const sector, milli = 512, 1e-3
	for _, f := range []struct {
		name string
		v    func(*blockdevice.Diskstats) float64
	}{
		{"node_disk_io_time_seconds_total", func(d *blockdevice.Diskstats) float64 { return milli * float64(d.IOsTotalTicks) }},
		{"node_disk_read_bytes_total", func(d *blockdevice.Diskstats) float64 { return sector * float64(d.ReadSectors) }},
		{"node_disk_written_bytes_total", func(d *blockdevice.Diskstats) float64 { return sector * float64(d.WriteSectors) }},
	} {
		w.family(f.name, "counter")
		for i := range disks {
			w.add(f.v(&disks[i]), "device", disks[i].DeviceName)
		}
	}
}

// onDisk are the file systems that are asked how full they are: those of the network may
// never answer.
var onDisk = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "vfat", "overlay"}

func (s *system) fileSystems(w *nodePage) {
	const most = 64
	mounts, err := s.proc.GetMounts()
	if err != nil {
		return
	}
	type space struct{ device, point, fstype string }
	var spaces []space
	var stats []unix.Statfs_t
	seen := map[string]bool{}
	for _, m := range mounts {
		var st unix.Statfs_t
		if !slices.Contains(onDisk, m.FSType) || seen[m.MajorMinorVer] || len(spaces) == most || unix.Statfs(m.MountPoint, &st) != nil {
			continue
		}
		seen[m.MajorMinorVer] = true // a directory that is mounted again
		spaces, stats = append(spaces, space{m.Source, m.MountPoint, m.FSType}), append(stats, st)
	}
	for _, f := range []struct {
		name   string
		blocks func(*unix.Statfs_t) uint64
	}{
		{"node_filesystem_avail_bytes", func(st *unix.Statfs_t) uint64 { return st.Bavail }},
		{"node_filesystem_size_bytes", func(st *unix.Statfs_t) uint64 { return st.Blocks }},
	} {
		w.family(f.name, "gauge")
		for i, at := range spaces {
			w.add(float64(f.blocks(&stats[i]))*float64(stats[i].Bsize), "device", at.device, "fstype", at.fstype, "mountpoint", at.point)
		}
	}
}

func (s *system) network(w *nodePage) {
	devices, err := s.proc.NetDev()
	if err != nil {
		return
	}
	names := make([]string, 0, len(devices))
	for name := range devices {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, f := range []struct {
		name string
		v    func(procfs.NetDevLine) uint64
	}{
		{"receive_bytes", func(l procfs.NetDevLine) uint64 { return l.RxBytes }},
		{"receive_drop", func(l procfs.NetDevLine) uint64 { return l.RxDropped }},
		{"receive_errs", func(l procfs.NetDevLine) uint64 { return l.RxErrors }},
		{"transmit_bytes", func(l procfs.NetDevLine) uint64 { return l.TxBytes }},
		{"transmit_drop", func(l procfs.NetDevLine) uint64 { return l.TxDropped }},
		{"transmit_errs", func(l procfs.NetDevLine) uint64 { return l.TxErrors }},
	} {
		w.family("node_network_"+f.name+"_total", "counter")
		for _, name := range names {
			w.add(float64(f.v(devices[name])), "device", name)
		}
	}
}

// nodePage is a page in the making.
type nodePage struct {
	b    []byte
	name string
}

func (w *nodePage) family(name, kind string) {
	w.name = name
	w.b = append(w.b, "# TYPE "+name+" "+kind+"\n"...)
}

func (w *nodePage) one(name, kind string, v float64) {
	w.family(name, kind)
	w.add(v)
}

// add writes a sample of the family with pairs of a label's name and value.
func (w *nodePage) add(v float64, labels ...string) {
	w.b = gpu.AppendSample(w.b, w.name, v, labels...)
}
