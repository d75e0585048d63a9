package site

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"time"
)

// The page on which a reader tries manifests. It runs 'kubectl kiln' as WebAssembly in a worker, which the page ends if a run takes too long.
//
// The worker is a blob: so it has the page's Content-Security-Policy, and connects to the page's own origin alone. A worker with an address of its own has the
// policy that the server sends with it, and most servers of static files send none. A page that is opened as a file cannot read the program: it needs a server.
var (
	//go:embed try.html
	tryPage string
	//go:embed try.css
	tryStyle string
	//go:embed try.js
	tryScript string
	//go:embed try-worker.js
	tryWorker string
)

// Program and Runner are the files that 'go run ./internal/browser/build' writes: the commands as WebAssembly, and Go's script that runs them.
const (
	Program = "kiln.wasm.gz"
	Runner  = "wasm_exec.js"
)

// longestRun is the time after which the page ends a run.
const longestRun = 2 * time.Second

// tryData is the data of the page's script: the catalog and the first manifest, the script of the worker, the file of the program, and longestRun in
// milliseconds.
type tryData struct {
	Catalog string `json:"catalog"`
	Example string `json:"example"`
	Worker  string `json:"worker"`
	Program string `json:"program"`
	Longest int64  `json:"longest"`
}

// TryPage returns the page on which a reader tries manifests with a catalog. Program must be in the same folder. runner is the content of Runner.
func TryPage(c Catalog, runner []byte) ([]byte, error) {
	parsed, err := template.New("try").Parse(tryPage)
	if err != nil {
		return nil, fmt.Errorf("the page's template: %w", err)
	}
	var catalog bytes.Buffer
	for _, objects := range [][]Object{c.Instancetypes, c.Preferences} {
		for _, o := range objects {
			fmt.Fprintf(&catalog, "---\n%s", o.Manifest)
		}
	}
	data, err := json.Marshal(tryData{ // escapes <, > and &: no text ends the script element
		Catalog: catalog.String(), Example: exampleVM(c), Worker: string(runner) + tryWorker, Program: Program, Longest: longestRun.Milliseconds(),
	})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, struct {
		Catalog
		Policy       string
		Data, Script template.JS
		Style        template.CSS
	}{c, tryPolicy(), template.JS(data), template.JS(tryScript), template.CSS(style + tryStyle)}); err != nil {
		return nil, fmt.Errorf("the page cannot be written: %w", err)
	}
	return out.Bytes(), nil
}

// tryPolicy returns a Content-Security-Policy that allows only this package's script and style, WebAssembly, and connections to the page's own origin.
func tryPolicy() string {
	return fmt.Sprintf("default-src 'none'; script-src '%s' 'wasm-unsafe-eval'; style-src '%s'; connect-src 'self'; worker-src blob:; base-uri 'none'; "+
		"form-action 'none'", scriptDigest(tryScript), scriptDigest(style+tryStyle))
}

// exampleVM returns a manifest with the first instancetype for all namespaces, and the first preference that fits. Their names are not trusted, and JSON's
// strings are YAML, too.
func exampleVM(c Catalog) string {
	var refers string
	for _, o := range c.Instancetypes {
		if o.Namespace != "" || o.Lifecycle != "active" {
			continue
		}
		refers = fmt.Sprintf("  instancetype: {name: %s}\n", quoted(o.Name))
		for _, i := range o.Fits {
			if p := c.Preferences[i]; p.Namespace == "" && p.Lifecycle == "active" {
				refers += fmt.Sprintf("  preference: {name: %s}\n", quoted(p.Name))
				break
			}
		}
		break
	}
	memory := ""
	if refers == "" {
		memory = "        memory: {guest: 1Gi}\n"
	}
	return `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web}
spec:
  runStrategy: Always
` + refers + `  template:
    spec:
      domain:
` + memory + `        devices:
          disks: [{name: root}]
          interfaces: [{name: default, masquerade: {}}]
      networks: [{name: default, pod: {}}]
      volumes: [{name: root, persistentVolumeClaim: {claimName: web}}]
`
}

// quoted returns a name as it is if it is a plain word of YAML, and otherwise as a string of JSON.
func quoted(name string) string {
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '.' && r != '-' {
			raw, _ := json.Marshal(name) // a string has a form in JSON
			return string(raw)
		}
	}
	return name
}
