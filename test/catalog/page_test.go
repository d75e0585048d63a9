package catalog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// maxPage is the size in bytes that the page of the published catalog may have.
const maxPage = 300_000

// TestPage drives each filter, sorting, comparison, details, copying and permalinks.
func TestPage(t *testing.T) {
	w := start(t)
	w.kiln("push", w.catalog(), w.general("1.0.0"))
	w.kiln("site", w.general("1.0.0"), "--output-dir", "public", "--title", "General")
	v := open(t, filepath.Join(w.dir, "public"))
	for _, filter := range []struct{ kind, name, value, want string }{
		{"instancetypes", "q", "SMA", "small"},
		{"instancetypes", "cpu", "2", "old large"},
		{"instancetypes", "maxcpu", "1", "small"},
		{"instancetypes", "mem", "1.5", "large"},
		{"instancetypes", "maxmem", "1", "old small"},
		{"instancetypes", "gpus", "1", "large"},
		{"instancetypes", "class", "compute", "large"},
		{"instancetypes", "arch", "amd64", "old small large"},
		{"instancetypes", "life", "deprecated", "old"},
		{"instancetypes", "fits", "preference/windows", "large"},
		{"preferences", "q", "win", "windows"},
		{"preferences", "maxcpu", "1", "linux"},
		{"preferences", "maxmem", "2", "linux"},
		{"preferences", "class", "windows", "windows"},
		{"preferences", "arch", "amd64", "linux windows"},
		{"preferences", "life", "deprecated", ""},
		{"preferences", "fits", "instancetype/small", "linux"},
	} {
		v.do(chromedp.Evaluate(`location.hash = '`+filter.kind+`'`, nil), chromedp.WaitVisible("#"+filter.kind+" form"))
		field := "#" + filter.kind + " [name=" + filter.name + "]"
		v.do(chromedp.SetValue(field, filter.value), chromedp.Evaluate(`document.querySelector('`+field+`').dispatchEvent(new Event('input', {bubbles: true}))`, nil))
		if shown := strings.Join(v.names(filter.kind), " "); shown != filter.want {
			t.Errorf("%s %s=%s: %q, want %q", filter.kind, filter.name, filter.value, shown, filter.want)
		}
		if hash := v.text("location.hash"); !strings.HasPrefix(hash, "#"+filter.kind+"?"+filter.name+"=") {
			t.Errorf("%s=%s: the permalink is %q", filter.name, filter.value, hash)
		}
		v.reset(filter.kind)
	}

	v.do(chromedp.Evaluate(`location.hash = 'instancetypes?cpu=8'`, nil), chromedp.Poll(`document.querySelector('#instancetypes [name=cpu]').value === '8'`, nil))
	if names := v.names("instancetypes"); len(names) != 1 || names[0] != "large" {
		t.Errorf("a permalink with a filter shows %v", names)
	}
	v.reset("instancetypes")

	v.do(chromedp.Click(`#instancetypes th[data-sort=cpus] button`))
	if names := strings.Join(v.names("instancetypes"), " "); names != "small old large" {
		t.Errorf("sorted by vCPUs: %s", names)
	}
	v.do(chromedp.Click(`#instancetypes th[data-sort=cpus] button`))
	if names := strings.Join(v.names("instancetypes"), " "); names != "large old small" {
		t.Errorf("sorted the other way: %s", names)
	}
	if hash := v.text("location.hash"); hash != "#instancetypes?sort=-cpus" {
		t.Errorf("the permalink of a sorted table is %q", hash)
	}
	v.do(chromedp.Evaluate(`location.hash = 'instancetypes?q=nothing-has-this-name'`, nil), chromedp.WaitVisible("#instancetypes .empty"),
		chromedp.Click("#instancetypes .empty button"), chromedp.WaitNotVisible("#instancetypes .empty"))
	if names := strings.Join(v.names("instancetypes"), " "); names != "old small large" {
		t.Errorf("without filters and order: %s", names)
	}

	v.do(chromedp.Click(`#instancetypes input[aria-label="Compare small"]`), chromedp.Click(`#instancetypes input[aria-label="Compare large"]`),
		chromedp.Click(`#instancetypes .compare`), opened)
	differing := v.text(`[...document.querySelectorAll('tr.differs th')].map((th) => th.textContent).join(' ')`)
	if !strings.Contains(differing, "spec.cpu.guest") || !strings.Contains(differing, "spec.memory.guest") {
		t.Errorf("the comparison marks %q", differing)
	}
	v.do(chromedp.Click("dialog[open] input[type=checkbox]"))
	if same := v.text(`String(document.querySelectorAll('dialog tbody tr:not([hidden]):not(.differs)').length)`); same != "0" {
		t.Errorf("%s rows without a difference are shown", same)
	}
	v.escape()

	v.do(browser.SetPermission(&browser.PermissionDescriptor{Name: "clipboard-write", AllowWithoutSanitization: true}, browser.PermissionSettingGranted),
		chromedp.Evaluate(`location.hash = 'instancetype/old'`, nil), opened)
	details := v.text(`document.getElementById('details').innerText`)
	for _, part := range []string{"Deprecated: new VMs bring a warning. Use 'small'.", "kind: VirtualMachineClusterInstancetype",
		"kubectl kiln create vm --name my-vm --instancetype old --preference linux --volume-pvc src:my-disk"} {
		if !strings.Contains(details, part) {
			t.Errorf("the details lack %q: %s", part, details)
		}
	}
	v.do(chromedp.Click("dialog[open] div > button"),
		chromedp.Poll(`[...document.querySelectorAll('dialog [role=status]')].some((s) => s.textContent !== '')`, nil))
	if shown := v.text(`document.querySelector('dialog [role=status]').textContent`); shown != " copied" && !strings.HasPrefix(shown, " selected") {
		t.Errorf("copying says %q", shown)
	}
	v.do(chromedp.Evaluate(`history.back()`, nil), closed)

	// By the alphabet 'large' would be first, and 'old' is deprecated.
	v.do(chromedp.Evaluate(`location.hash = 'preference/linux'`, nil), opened)
	want := "kubectl kiln create vm --name my-vm --instancetype small --preference linux --volume-pvc src:my-disk"
	if details := v.text(`document.getElementById('details').innerText`); !strings.Contains(details, want) {
		t.Errorf("the details of a preference lack %q: %s", want, details)
	}
	v.escape()
	if len(*v.errors) > 0 {
		t.Errorf("the page has errors: %v", *v.errors)
	}
}

// TestPageByKeyboard reaches the filter, a row's details and the end of them without a pointer.
func TestPageByKeyboard(t *testing.T) {
	w := start(t)
	w.kiln("site", w.catalog(), "--output-dir", "public")
	v := open(t, filepath.Join(w.dir, "public"))
	reached := func(selector string) {
		t.Helper()
		for range 60 {
			v.do(chromedp.KeyEvent(kb.Tab))
			var there bool
			v.do(chromedp.Evaluate(`document.activeElement.matches('`+selector+`')`, &there))
			if there {
				return
			}
		}
		t.Fatalf("Tab never reaches %s", selector)
	}
	reached("#instancetypes [name=q]")
	v.do(chromedp.KeyEvent("lar"))
	if names := v.names("instancetypes"); len(names) != 1 || names[0] != "large" {
		t.Errorf("typed a search: %v", names)
	}
	reached("#instancetypes tbody a")
	v.do(chromedp.KeyEvent(kb.Enter), opened)
	if heading := v.text(`document.getElementById('details-title').textContent`); heading != "large" {
		t.Errorf("the details are of %q", heading)
	}
	reached("dialog button")
	v.escape()
	if names := v.names("instancetypes"); len(names) != 1 {
		t.Errorf("closing the details loses the filter: %v", names)
	}
	if len(*v.errors) > 0 {
		t.Errorf("the page has errors: %v", *v.errors)
	}
}

// TestPublishedCatalog writes the page of the catalog that KubeVirt publishes.
func TestPublishedCatalog(t *testing.T) {
	const published = "../../../shared/catalog"
	if _, err := os.Stat(published); err != nil {
		t.Skipf("the published catalog is not at %s", published)
	}
	source, err := filepath.Abs(published)
	if err != nil {
		t.Fatal(err)
	}
	w := start(t)
	w.kiln("push", source, w.general("1.0.0"))
	w.kiln("site", w.general("1.0.0"), "--output-dir", "public")
	info, err := os.Stat(filepath.Join(w.dir, "public", "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the page has %d bytes", info.Size())
	if info.Size() > maxPage {
		t.Errorf("the page has %d bytes, more than %d", info.Size(), maxPage)
	}
	v := open(t, filepath.Join(w.dir, "public"))
	if n := len(v.names("instancetypes")); n != 65 {
		t.Errorf("the page shows %d instancetypes", n)
	}
	if len(*v.errors) > 0 {
		t.Errorf("the page has errors: %v", *v.errors)
	}
}
