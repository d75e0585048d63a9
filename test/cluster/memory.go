package cluster

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// WebhookPeaks is the most memory that each replica of the webhook has had, in bytes.
func (c *Cluster) WebhookPeaks() (peaks []int64, err error) {
	for _, r := range c.replicas {
		peak, err := r.process.peak()
		if err != nil {
			return nil, err
		}
		peaks = append(peaks, peak)
	}
	return peaks, nil
}

// peak is VmHWM of a process.
// VmHWM is the largest resident set so far (proc_pid_status(5)), in units of 1024 bytes that the file calls kB. It fails once the process has ended.
func (p *process) peak() (int64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if text, found := strings.CutPrefix(line, "VmHWM:"); found {
			kibibytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
			return kibibytes << 10, err
		}
	}
	return 0, fmt.Errorf("no VmHWM in %s", raw)
}
