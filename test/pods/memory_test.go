package pods

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kilnvm/kiln/test/nightly"
)

// sizes of guests. The first has no operating system.
var sizes = []string{"64Mi", "192Mi", "512Mi", "1Gi", "2Gi"}

// underLoad is how long a guest is watched after it has written and fetched all once.
const underLoad = 20 * time.Second

// TestMemory: the overhead of a pod (pkg/pod) is never below what its processes need at their peaks, besides the guest's memory, while the guest writes to
// its disk and fetches by its network. The sums of the processes' peaks count shared pages more than once, and peaks that are at different times.
func TestMemory(t *testing.T) {
	nightly.Only(t)
	n := newTenant(t, "memory")
	url, fetched := n.zeros()
	boot := kernelBoot("kiln.serve=8080 kiln.load=" + url)
	for i, size := range sizes {
		name := "of-" + strings.ToLower(size)
		how := boot
		if i == 0 {
			how = "bootloader: {bios: {}}"
		}
		n.apply(loaded(name, size, how))
		n.phase(name, "Running")
		m := n.meter(name, size)
		if i > 0 {
			t.Logf("%s: %s", size, lastLine(n.console(name, "KILN-LOADED"), "KILN-LOADED"))
		}
		time.Sleep(underLoad)
		m.judge(t, n.overheadOf(name, size))
		n.kubectl("delete", "vm", name, "--timeout=180s")
	}
	if fetched.Load() == 0 {
		t.Error("no guest has fetched anything")
	}
	t.Logf("the guests have fetched %d MiB", fetched.Load()>>20)
}

// overheadOf is what the pod requests beyond the memory of its guest.
func (n *tenant) overheadOf(name, size string) int64 {
	n.Helper()
	text := n.kubectl("get", "pod", "guest-"+name, "-o", "jsonpath={.spec.containers[0].resources.requests.memory}")
	request, err := resource.ParseQuantity(text)
	if err != nil {
		n.Fatal(err)
	}
	guest := resource.MustParse(size)
	return request.Value() - guest.Value()
}

// zeros serves 4 MiB at an address that pods reach, and counts what it has sent.
func (n *tenant) zeros() (url string, sent *atomic.Int64) {
	n.Helper()
	listener, err := shared.Listen(n.Context(), "tcp", ":0")
	if err != nil {
		n.Fatal(err)
	}
	sent = &atomic.Int64{}
	block := make([]byte, 1<<20)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 4 {
			written, err := w.Write(block)
			sent.Add(int64(written))
			if err != nil {
				return
			}
		}
	})}
	go func() { _ = server.Serve(listener) }()
	n.Cleanup(func() { _ = server.Close() })
	_, port, _ := strings.Cut(listener.Addr().String(), "]:")
	return "http://" + shared.Address + ":" + port + "/", sent
}

// lastLine returns the last line of a text that has a word.
func lastLine(text, word string) string {
	lines := strings.Split(text, "\n")
	slices.Reverse(lines)
	if i := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, word) }); i >= 0 {
		return strings.TrimSpace(lines[i])
	}
	return ""
}
