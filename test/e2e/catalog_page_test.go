package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/test/page"
)

// TestCatalogFromAnEmptyFolder runs the commands of docs/tutorials/catalog.md. The VM that the first version made stays as it is after each of them.
func TestCatalogFromAnEmptyFolder(t *testing.T) {
	h := newShop(t)
	t.Cleanup(func() { h.uninstalled("web") })
	blocks := page.Blocks(t, "../../docs/tutorials/catalog.md", "")
	for i := range blocks {
		blocks[i].Text = strings.ReplaceAll(blocks[i].Text, "registry.example.org", h.host)
	}
	var before, uid string
	scripts, shown := h.walk(blocks, func(script string) {
		switch {
		case before != "":
			h.same(script, "old", before)
		case h.exists("vmi", "old"):
			before, uid = h.running("old"), string(h.get("vmi", "old").GetUID())
		}
		if version := regexp.MustCompile(`catalog install \S+:(\d\.\d\.\d) `).FindStringSubmatch(script); version != nil {
			h.awaitVersion(version[1], before)
		}
	})
	if scripts != 14 || shown != 10 {
		t.Errorf("%d scripts and %d outputs: the page has another form than this test reads", scripts, shown)
	}
	h.afterTheWalk(uid)
}

// afterTheWalk expects what the commands have left: VMs that restarted, and no instancetype that none uses.
func (h shop) afterTheWalk(uid string) {
	h.Helper()
	if now := string(h.get("vmi", "old").GetUID()); uid == "" || now == uid {
		h.Errorf("VM 'old' has not restarted: the UID of its VMI was '%s' and is '%s'", uid, now)
	}
	for name, memory := range map[string]string{"old": "1Gi", "new": "2Gi", "late": "2Gi"} {
		h.eventually("VM '"+name+"' has a VMI", func() bool { return h.exists("vmi", name) })
		if got := field(h.get("vmi", name), "spec", "domain", "memory", "guest"); got != memory {
			h.Errorf("VM '%s' has memory %v, want %s", name, got, memory)
		}
	}
	if h.exists("vm", "later") {
		h.Error("a VM of an obsolete instancetype was created")
	}
	left := ""
	for _, kind := range []string{"virtualmachineclusterinstancetype", "virtualmachineclusterpreference"} {
		for _, object := range h.list(kind, "kilnvm.io/catalog=web") {
			left += fmt.Sprintf("%s %s ", object.GetName(), object.GetLabels()["kilnvm.io/lifecycle"])
		}
	}
	if left != "w1.small obsolete w1.linux obsolete " {
		h.Errorf("of the catalog '%s' is left", left)
	}
}

// awaitVersion waits until the webhooks know a version of the page's catalog.
func (h shop) awaitVersion(version, before string) {
	h.Helper()
	manifest := vm("probe", "{name: small}", "{name: w1.small}", "{name: linux.sample}", "{name: w1.linux}")
	h.awaitCreation("the webhooks know version "+version, manifest, func(a answer) bool {
		switch version {
		case "1.0.0":
			return strings.Contains(a.stdout, "w1.small-")
		case "1.1.0":
			pinned := regexp.MustCompile(`w1\.small-[0-9a-z]+`).FindString(a.stdout)
			return pinned != "" && !strings.Contains(before, pinned)
		case "1.2.0":
			return strings.Contains(a.stderr, "'w1.small' is deprecated")
		}
		return strings.Contains(a.stderr, "'w1.small' is obsolete")
	})
}
