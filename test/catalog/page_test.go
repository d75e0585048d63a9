package catalog

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"
)

// maxPage is the size in bytes that the page of the published catalog may have.
const maxPage = 300_000

// patience is the time that one step may take on a busy machine: a test of a page that does not react ends.
const patience = time.Minute

// view is a page in Chromium.
type view struct {
	*testing.T
	ctx context.Context
	// errors that the page's script threw or the console shows.
	errors *[]string
}

// open opens a page of a folder in Chromium without a server.
func open(t *testing.T, dir string) view {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("chromium is missing: install Debian's package 'chromium'")
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(2*time.Minute))
	allocated, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, stop := chromedp.NewContext(allocated)
	t.Cleanup(stop)
	v := view{t, ctx, new([]string)}
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			*v.errors = append(*v.errors, e.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
				*v.errors = append(*v.errors, string(e.Type))
			}
		}
	})
	if err := chromedp.Run(ctx); err != nil { // the first run starts the browser, which ends with the context of that run
		t.Fatal(err)
	}
	v.do(chromedp.Navigate("file://"+filepath.Join(dir, "index.html")), chromedp.WaitVisible("#instancetypes form"))
	return v
}

func (v view) do(actions ...chromedp.Action) {
	v.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		var state string
		if asked := chromedp.Run(v.ctx, chromedp.Evaluate(`location.hash + ' ' + document.activeElement.outerHTML.slice(0, 200)`, &state)); asked != nil {
			state = asked.Error()
		}
		v.Fatalf("%v, at %s; errors of the page: %v", err, state, *v.errors)
	}
}

// names returns the names of the rows that are shown.
func (v view) names(kind string) (names []string) {
	v.Helper()
	v.do(chromedp.Evaluate(`[...document.querySelectorAll('#`+kind+` tbody tr:not([hidden]) th a')].map((a) => a.textContent)`, &names))
	return names
}

func (v view) text(script string) (text string) {
	v.Helper()
	v.do(chromedp.Evaluate(script, &text))
	return text
}

// reset clears all filters.
func (v view) reset(kind string) {
	v.Helper()
	v.do(chromedp.Click("#"+kind+" button[type=reset]"), chromedp.Poll(`document.querySelector('#`+kind+` tr[hidden]') === null`, nil))
}

// opened and closed wait for the dialog. The library's own waiting misses elements of the top layer.
var (
	opened = chromedp.Poll(`document.querySelector('dialog').open`, nil)
	closed = chromedp.Poll(`!document.querySelector('dialog').open`, nil)
)

// escape closes the dialog by its key. A busy Chromium was seen to lose one: it is pressed again then.
func (v view) escape() {
	v.Helper()
	for range 5 {
		var open bool
		v.do(chromedp.KeyEvent(kb.Escape), chromedp.Sleep(time.Second), chromedp.Evaluate(`document.querySelector('dialog').open`, &open))
		if !open {
			return
		}
	}
	v.Fatal("Escape does not close the dialog")
}

// TestPage drives each filter, sorting, comparison, details, copying and permalinks.
func TestPage(t *testing.T) {
	w := start(t)
	w.kiln("push", w.catalog(), w.general("1.0.0"))
	w.kiln("site", w.general("1.0.0"), "-o", "public", "--title", "General")
	v := open(t, filepath.Join(w.dir, "public"))
	for _, filter := range []struct{ kind, name, value, want string }{
		{"instancetypes", "q", "SMA", "small"},
		{"instancetypes", "cpu", "2", "large old"},
		{"instancetypes", "maxcpu", "1", "small"},
		{"instancetypes", "mem", "1.5", "large"},
		{"instancetypes", "maxmem", "1", "old small"},
		{"instancetypes", "gpus", "1", "large"},
		{"instancetypes", "class", "compute", "large"},
		{"instancetypes", "arch", "amd64", "large old small"},
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
		if diff := cmp.Diff(strings.Fields(filter.want), v.names(filter.kind), cmp.Transformer("empty", func(s []string) string { return strings.Join(s, " ") })); diff != "" {
			t.Errorf("%s %s=%s: %s", filter.kind, filter.name, filter.value, diff)
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

	v.do(chromedp.Click(`#instancetypes input[aria-label="Compare small"]`), chromedp.Click(`#instancetypes input[aria-label="Compare large"]`),
		chromedp.Click(`#instancetypes .compare`), opened)
	if differing := v.text(`[...document.querySelectorAll('tr.differs th')].map((th) => th.textContent).join(' ')`); !strings.Contains(differing, "spec.cpu.guest") ||
		!strings.Contains(differing, "spec.memory.guest") {
		t.Errorf("the comparison marks %q", differing)
	}
	v.escape()

	v.do(browser.SetPermission(&browser.PermissionDescriptor{Name: "clipboard-write", AllowWithoutSanitization: true}, browser.PermissionSettingGranted),
		chromedp.Evaluate(`location.hash = 'instancetype/old'`, nil), opened)
	details := v.text(`document.getElementById('details').innerText`)
	for _, part := range []string{"Deprecated: new VMs bring a warning. Use 'small'.", "kubectl kiln create vm --name my-vm --instancetype old --preference linux", "kind: VirtualMachineClusterInstancetype"} {
		if !strings.Contains(details, part) {
			t.Errorf("the details lack %q: %s", part, details)
		}
	}
	v.do(chromedp.Click("dialog[open] div > button"), chromedp.Poll(`[...document.querySelectorAll('dialog [role=status]')].some((s) => s.textContent !== '')`, nil))
	if said := v.text(`document.querySelector('dialog [role=status]').textContent`); said != " copied" && !strings.HasPrefix(said, " selected") {
		t.Errorf("copying says %q", said)
	}
	v.do(chromedp.Evaluate(`history.back()`, nil), closed)
	if len(*v.errors) > 0 {
		t.Errorf("the page has errors: %v", *v.errors)
	}
}

// TestPageByKeyboard reaches the filter, a row's details and the end of them without a pointer.
func TestPageByKeyboard(t *testing.T) {
	w := start(t)
	w.kiln("site", w.catalog(), "-o", "public")
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
	w.kiln("site", w.general("1.0.0"), "-o", "public")
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
