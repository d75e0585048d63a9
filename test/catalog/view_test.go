package catalog

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

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
