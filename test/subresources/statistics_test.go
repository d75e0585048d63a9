package subresources

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/guestmetrics"
	"github.com/kilnvm/kiln/internal/hypervisor"
	"github.com/kilnvm/kiln/test/nightly"
	v1 "kubevirt.io/api/core/v1"
)

// scraped returns the lines of what the API server of subresources says of guests of the namespace.
func (s space) scraped() (lines []string) {
	s.Helper()
	client := http.Client{Timeout: 10 * time.Second} // as Prometheus waits
	response, err := client.Get(shared.APIServerMetrics() + "/guests")
	if err != nil {
		s.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		s.Fatalf("%s: %v: %s", response.Status, err, text)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, `namespace="`+s.name+`"`) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// TestStatisticsOfGuests: a scrape has what launchers count, with the account of the API server and its rights. One launcher that takes connections and never
// answers, and one whose pod is unreachable, cost the others nothing.
func TestStatisticsOfGuests(t *testing.T) {
	s := newSpace(t)
	of := map[string]*v1.VirtualMachineInstance{}
	for _, name := range []string{"web", "stuck", "dead"} {
		s.make(name, v1.RunStrategyAlways)
		of[name] = s.vmi(name, nil)
		s.phase(name, v1.Running)
	}
	stuck, err := net.Listen("tcp", net.JoinHostPort("127.0.0.61", strconv.Itoa(v1alpha1.LauncherPort)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stuck.Close() })
	s.introduce(of["stuck"], "127.0.0.61", "sha256:00")
	s.introduce(of["dead"], "192.0.2.1", "sha256:00")
	web := &guest{counted: hypervisor.Statistics{CPU: hypervisor.Values{"time": 1_500_000_000}, NICs: map[string]hypervisor.Values{"default": {"rx.bytes": 7}}}}
	s.launch(of["web"], web, "127.0.0.60")
	const labels = `name="web",namespace="`
	var lines []string
	s.eventually("the guest is counted", func() bool {
		lines = s.scraped()
		return len(lines) > 0
	})
	node := `",node="` + of["web"].Status.NodeName + `"`
	want := []string{
		"kubevirt_vmi_cpu_usage_seconds_total{" + labels + s.name + node + "} 1.5",
		`kubevirt_vmi_network_receive_bytes_total{interface="default",` + labels + s.name + node + "} 7",
		`kubevirt_vmi_network_traffic_bytes_total{interface="default",` + labels + s.name + node + `,type="rx"} 7`,
	}
	if got := strings.Join(lines, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("the scrape has\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	web.mutex.Lock()
	web.counted.CPU = hypervisor.Values{"time": 2_500_000_000}
	web.mutex.Unlock()
	s.eventually("the counter moves, and the answers are counted", func() bool {
		lines = s.scraped()
		own := s.own()
		return len(lines) == 3 && strings.HasSuffix(lines[0], " 2.5") && strings.Contains(own, `kiln_guest_statistics{result="answered"} 1`) &&
			strings.Contains(own, `kiln_guest_statistics{result="failed"} 2`)
	}, func() string { return strings.Join(lines, "\n") })
}

// own returns what the API server of subresources says of itself.
func (s space) own() string {
	s.Helper()
	response, err := http.Get(shared.APIServerMetrics())
	if err != nil {
		s.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

// TestOneReplicaAsks: a replica that loses its Lease ceases to ask guests, and goes on with all else. It asks again when the other one is gone.
func TestOneReplicaAsks(t *testing.T) {
	nightly.Only(t)
	s := spaceOf(t)
	s.make("web", v1.RunStrategyHalted)
	asks := func() bool { return strings.Contains(s.own(), "kiln_guest_statistics{") }
	s.eventually("the replica asks", asks)
	pid := shared.APIServerPID()
	const lease = `{"spec":{"holderIdentity":"another","leaseDurationSeconds":30,"renewTime":%q}}`
	s.eventually("it asks no longer", func() bool {
		s.kubectl("", "patch", "lease", guestmetrics.LeaseName, "--namespace", shared.Namespace, "--type=merge", "-p="+fmt.Sprintf(lease,
			time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")))
		return !asks()
	})
	s.expect(http.MethodPut, "vm/web/start", `{"dryRun":["All"]}`, http.StatusAccepted, "")
	s.eventually("it asks again", asks)
	if now := shared.APIServerPID(); now != pid {
		t.Errorf("process %d was replaced by %d", pid, now)
	}
}
