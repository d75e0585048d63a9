package pods

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kilnvm/kiln/test/cgroups"
)

// tick is the time between two looks at a guest's processes. The kernel keeps the peak of each but of QEMU, of which the guest's memory is to be taken away.
const tick = 200 * time.Millisecond

// meter has the peaks of the processes of one guest, in bytes.
type meter struct {
	size  string
	stop  chan struct{}
	ended sync.WaitGroup
	// peaks by process: kind and PID. QEMU's is without the guest's memory. ram is the peak of that.
	peaks map[string]int64
	ram   int64
	// pod is the peak of what the pod's cgroup has besides pages of files and the guest's memory.
	pod int64
	// failed is why a cgroup could not be read.
	failed error
	// names are the kinds that were seen.
	names map[string]bool
}

// meter looks at the processes of a guest until judge is called.
func (n *tenant) meter(name, size string) *meter {
	n.Helper()
	guest := resource.MustParse(size)
	m := &meter{size: size, stop: make(chan struct{}), peaks: map[string]int64{}, names: map[string]bool{}}
	m.ended.Go(func() {
		for {
			m.look(ofGuest(processes(), n.namespace+"_"+name), guest.Value()/1024)
			select {
			case <-m.stop:
				return
			case <-time.After(tick):
			}
		}
	})
	return m
}

func (m *meter) look(all []process, guestKiB int64) {
	var ram int64
	for _, p := range all {
		status := kibibytes(p.pid)
		peak := status["VmHWM"] + status["VmPTE"]
		if p.kind == qemu {
			ram = resident(p.pid, guestKiB)
			peak = status["VmRSS"] + status["VmPTE"] - ram
			m.ram = max(m.ram, ram<<10)
		}
		m.names[p.kind] = true
		key := fmt.Sprintf("%s %d", p.kind, p.pid)
		m.peaks[key] = max(m.peaks[key], peak<<10)
	}
	if len(all) > 0 {
		m.lookAtPod(all[0].pod, ram<<10)
	}
}

// lookAtPod notes what the cgroup of a pod has besides the guest's memory.
func (m *meter) lookAtPod(pod string, ram int64) {
	folder, err := cgroupOf(shared, "memory", pod)
	var bytes int64
	if err == nil {
		bytes, err = cgroups.Memory(folder)
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) { // the pod has ended
			m.failed = err
		}
		return
	}
	m.pod = max(m.pod, bytes-ram)
}

// kibibytes are the sizes in /proc/PID/status.
func kibibytes(pid int) map[string]int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	sizes := map[string]int64{}
	for _, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[2] == "kB" {
			sizes[strings.TrimSuffix(fields[0], ":")], _ = strconv.ParseInt(fields[1], 10, 64)
		}
	}
	return sizes
}

// resident returns how much of the guest's memory QEMU has: the mapping of that size of which most is resident.
func resident(pid int, guestKiB int64) (most int64) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return 0 // it has ended
	}
	defer file.Close()
	var size int64
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 || fields[2] != "kB" {
			continue
		}
		value, _ := strconv.ParseInt(fields[1], 10, 64)
		switch fields[0] {
		case "Size:":
			size = value
		case "Rss:":
			if size == guestKiB {
				most = max(most, value)
			}
		}
	}
	return most
}

// judge compares the peaks with the overhead.
func (m *meter) judge(t *testing.T, overhead int64) {
	t.Helper()
	close(m.stop)
	m.ended.Wait()
	var sum int64
	lines := ""
	for _, key := range slices.Sorted(maps.Keys(m.peaks)) {
		sum += m.peaks[key]
		lines += fmt.Sprintf("\n  %-20s %6.1f MiB", key, mebibytes(m.peaks[key]))
	}
	t.Logf("guest of %s, %.0f MiB of it resident: overhead %.1f MiB; peaks of its processes %.1f MiB, ratio %.2f; peak of its pod %.1f MiB, ratio %.2f%s",
		m.size, mebibytes(m.ram), mebibytes(overhead), mebibytes(sum), float64(overhead)/float64(sum), mebibytes(m.pod), float64(overhead)/float64(m.pod), lines)
	for _, kind := range []string{qemu, libvirtd, passt, swtpm, launcher} {
		if !m.names[kind] {
			t.Errorf("guest of %s: no process %s was seen", m.size, kind)
		}
	}
	if m.ram == 0 || m.pod <= 0 || m.failed != nil {
		t.Errorf("guest of %s: its memory was not found: resident %d, pod %d, %v", m.size, m.ram, m.pod, m.failed)
	}
	if sum > overhead || m.pod > overhead {
		t.Errorf("guest of %s: the overhead of %.1f MiB is below what was needed: by processes %.1f MiB, by cgroup %.1f MiB",
			m.size, mebibytes(overhead), mebibytes(sum), mebibytes(m.pod))
	}
}

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }
