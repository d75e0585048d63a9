package site

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/internal/cli"
	"github.com/kilnvm/kiln/internal/cli/cmdutil"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// tryable makes try.html with the sample catalog, by 'kubectl kiln catalog site --try', and returns its folder.
func tryable(t *testing.T) string {
	t.Helper()
	runMake(t, "browser")
	dir := filepath.Join(t.TempDir(), "public")
	if got := call("catalog", "site", "../../manifests/catalog", "--title", "Sample", "--try", "../../bin/browser", "--output-dir", dir); got.Status != 0 {
		t.Fatal(got)
	}
	return dir
}

// printed is what a command prints.
type printed struct {
	Out, Errors string
	Status      int
}

// call runs a command of 'kubectl kiln' in this process.
func call(args ...string) printed {
	var out, errOut bytes.Buffer
	command := cli.Command(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errOut})
	command.SetArgs(args)
	err := command.Execute()
	if err != nil && !cmdutil.Answered(err) {
		cmdutil.PrintFault(&errOut, err)
	}
	return printed{out.String(), errOut.String(), cmdutil.ExitStatus(err)}
}

// run is a command on files.
type run struct {
	Args  []string          `json:"args"`
	Files map[string]string `json:"files"`
	name  string
}

// corpusRuns returns the commands of the page for each case of the corpus, in the folder of the case.
func corpusRuns(t *testing.T) (runs []run) {
	t.Helper()
	entries, err := os.ReadDir(corpusDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		files := map[string]string{}
		for _, name := range []string{"vm.yaml", "vmi.yaml", "cluster.yaml", "host.yaml"} {
			if raw, err := os.ReadFile(filepath.Join(corpusDir, entry.Name(), name)); err == nil {
				files[name] = string(raw)
			}
		}
		guest := "vm.yaml"
		if files[guest] == "" {
			guest = "vmi.yaml"
		}
		if files[guest] == "" {
			continue
		}
		var catalog, host []string
		if files["cluster.yaml"] != "" {
			catalog = []string{"--catalog", "cluster.yaml"}
		}
		if files["host.yaml"] != "" {
			host = []string{"--host", "host.yaml"}
		}
		for _, args := range [][]string{
			append([]string{"validate", "-f", guest}, catalog...),
			append([]string{"explain", "-f", guest}, catalog...),
			slices.Concat([]string{"render", "-f", guest}, catalog, host),
			slices.Concat([]string{"diff", guest, guest}, catalog, host),
		} {
			runs = append(runs, run{Args: args, Files: files, name: entry.Name()})
		}
	}
	return runs
}

const corpusDir = "../corpus"

// TestBrowserPrintsWhatTheCommandLinePrints runs the commands of the page on every case of the corpus in Chromium: each prints the bytes of 'kubectl kiln', and
// ends with its exit status.
func TestBrowserPrintsWhatTheCommandLinePrints(t *testing.T) {
	b := serve(t, tryable(t))
	t.Setenv("KUBECONFIG", os.DevNull) // a browser has none
	runs := corpusRuns(t)
	var answer struct {
		Failed  string
		Answers []printed
		Times   []float64
		Started float64
	}
	b.run("corpus.html", map[string]any{"runs": runs}, &answer, 40*time.Minute)
	if answer.Failed != "" || len(answer.Answers) != len(runs) {
		t.Fatalf("%d answers to %d commands: %s", len(answer.Answers), len(runs), answer.Failed)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	statuses := map[string]int{}
	for i, r := range runs {
		t.Chdir(filepath.Join(here, corpusDir, r.name))
		want := call(r.Args...)
		if diff := cmp.Diff(want, answer.Answers[i]); diff != "" {
			t.Errorf("%s: %s: command line and browser differ:\n%s", r.name, strings.Join(r.Args, " "), diff)
		}
		statuses[fmt.Sprintf("%s %d", r.Args[0], want.Status)]++
	}
	for _, command := range []string{"validate 0", "validate 1", "explain 0", "render 0", "diff 0"} {
		if statuses[command] < 50 {
			t.Errorf("only %d runs have ended as '%s': %v", statuses[command], command, statuses)
		}
	}
	slices.Sort(answer.Times)
	t.Logf("%d commands: %v; the program starts in %.0f ms; a run takes %.0f ms in the middle, %.0f ms at most", len(runs), statuses, answer.Started,
		answer.Times[len(runs)/2], answer.Times[len(runs)-1])
}

// patient serves the page below /patient/ with a longer limit of a run, because on a busy machine two seconds are not enough for some honest ones. The limit is
// data, and not of the script, whose digest the page's policy has.
func patient(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, is := strings.CutPrefix(r.URL.Path, "/patient/")
		if !is {
			next.ServeHTTP(w, r)
			return
		}
		recorder := httptest.NewRecorder()
		asked := r.Clone(r.Context())
		asked.URL.Path = "/" + rest
		asked.Header.Del("If-Modified-Since")
		next.ServeHTTP(recorder, asked)
		body := bytes.Replace(recorder.Body.Bytes(), []byte(`"longest":2000`), []byte(`"longest":120000`), 1)
		w.Header().Set("Content-Type", recorder.Header().Get("Content-Type"))
		_, _ = w.Write(body)
	})
}

// hostileManifests try to run a script in the page, or to keep it busy.
func hostileManifests() (all []map[string]string) {
	const attack = `"'></pre><script>attacked("script")</script><img src=x onerror="attacked('img')"><a href="javascript:attacked('link')">x</a>` +
		`<svg onload=attacked(1)>`
	add := func(name, text string) { all = append(all, map[string]string{"name": name, "text": text}) }
	vm := "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: web}\nspec: {runStrategy: Halted, template: {spec: {domain: {%s}}}}\n"
	add("a name", strings.Replace(vm, "name: web", fmt.Sprintf("name: %q", attack), 1))
	add("a value", fmt.Sprintf(vm, fmt.Sprintf("machine: {type: %q}", attack)))
	add("a field", fmt.Sprintf(vm, fmt.Sprintf("%q: 1", attack)))
	add("no YAML", attack)
	add("a link", "javascript:attacked('link')")
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 12 {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	add("a bomb of aliases", bomb)
	add("deep lists", strings.Repeat("[", 500_000))
	add("deep maps", strings.Repeat("{a: ", 200_000))
	disks := strings.TrimSuffix(strings.Repeat("{name: d, disk: {bus: virtoi}}, ", 30_000), ", ")
	add("30,000 disks", fmt.Sprintf(vm, "devices: {disks: ["+disks+"]}"))
	add("20,000 VMs", strings.Repeat("---\napiVersion: v1\nkind: Nothing\nmetadata: {name: x}\n", 18_000))
	add("one long line", "a: "+strings.Repeat("x", 1_000_000))
	add("too large", strings.Repeat("a", 2_000_000))
	return all
}

// TestTryPage uses the page as a reader does. Hostile manifests run no script, and end within two seconds; what comes after the end of a run works.
func TestTryPage(t *testing.T) {
	b := serve(t, tryable(t))
	var answer struct {
		Failed   string
		Commands map[string]struct{ Status, Out string }
		Linked   bool
		Broken   string
		Hostile  []struct {
			Name, Status, Out        string
			Milliseconds             float64
			Elements, Scripts, Shown int
		}
		After, Connects string
		Attacked        []string
	}
	manifests := hostileManifests()
	b.handler = patient(b.handler)
	b.run("try.html", map[string]any{"manifests": manifests}, &answer, 40*time.Minute)
	if answer.Failed != "" {
		t.Fatal(answer.Failed)
	}
	for command, want := range map[string]string{
		"validate": "VirtualMachine default/web is accepted", "explain": "instancetype ", "render": "<domain", "diff": "compatible",
	} {
		if got := answer.Commands[command]; !strings.Contains(got.Out, want) || got.Status != "exit status 0" {
			t.Errorf("%s prints no '%s': %+v", command, want, got)
		}
	}
	if !answer.Linked || answer.Broken == "" {
		t.Errorf("permalinks: %v, %q", answer.Linked, answer.Broken)
	}
	for _, h := range answer.Hostile {
		t.Logf("%-18s %5.0f ms, %7d characters: %s", h.Name, h.Milliseconds, h.Shown, h.Status)
		if h.Elements > 0 || h.Scripts != 2 { // the data and the script of the page
			t.Errorf("%s has made %d elements and %d scripts:\n%s", h.Name, h.Elements, h.Scripts, h.Out)
		}
		// 300 ms of waiting for more input, two seconds of a run, and what a busy machine adds.
		if h.Milliseconds > 8_000 {
			t.Errorf("%s took %.0f ms", h.Name, h.Milliseconds)
		}
	}
	if len(answer.Hostile) != len(manifests) {
		t.Errorf("%d of %d manifests were tried", len(answer.Hostile), len(manifests))
	}
	if answer.After != "exit status 0" && !strings.Contains(answer.After, "has been ended") {
		t.Errorf("after hostile manifests: %s", answer.After)
	}
	for _, attack := range answer.Attacked {
		if attack != "violation of script-src-elem" && attack != "violation of connect-src" && attack != "violation of script-src" { // of the test's own probes
			t.Errorf("a script ran: %s", attack)
		}
	}
	if strings.Contains(answer.Connects, "yes") {
		t.Error("the page connects to another origin")
	}
}
