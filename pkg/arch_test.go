// Package pkg_test holds the policy on what the engine may depend on. It is policy: a failing line is answered by
// changing the code, not the line.
package pkg_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kilnvm/kiln/pkg/instancetype"
)

const module = "github.com/kilnvm/kiln/"

// never lists direct imports: a package whose path starts with from must not import a package whose path starts with to, except those whose path starts with
// an entry of except.
var never = []struct {
	from, to string
	except   []string
	why      string
}{
	{from: "pkg/", to: "os", why: "the engine is values in, values out: files belong to the edges"},
	{from: "pkg/", to: "net", why: "the engine talks to nobody; parse addresses with net/netip"},
	{from: "pkg/", to: "net/http", why: "the engine talks to nobody"},
	{from: "pkg/", to: "log", why: "what the engine has to say is in its results"},
	{from: "pkg/", to: "log/slog", why: "what the engine has to say is in its results"},
	{from: "pkg/", to: "k8s.io/klog/", why: "what the engine has to say is in its results"},
	{from: "pkg/", to: "math/rand", why: "admitting twice must give the same answer"},
	{from: "pkg/", to: "crypto/rand", why: "admitting twice must give the same answer"},
	{from: "pkg/", to: "github.com/google/uuid", why: "identity derives from a seed that the caller gives"},
	{from: "pkg/", to: "sigs.k8s.io/controller-runtime", why: "the engine is usable without a cluster"},
	{from: "pkg/", to: "k8s.io/client-go", why: "the engine is usable without a cluster"},
	{from: "pkg/", to: module + "internal/", why: "the engine is importable by others; edges depend on it, not it on them"},
	{from: "internal/review", to: module + "internal/kubevirt/", why: "a review knows KubeVirt's controllers only by its interface"},
	{from: "internal/lifecycle", to: module + "internal/kubevirt/", why: "the controller of VMs knows KubeVirt's guests only by its interface"},
	{from: "internal/lifecycle", to: module + "pkg/domain/kubevirt", why: "the controller of VMs knows KubeVirt's guests only by its interface"},
	{from: "internal/", to: module + "cmd/", why: "processes compose edges"},
	{from: "pkg/validate", to: module + "pkg/mutate", why: "a rule that needs a default shows that mutate left something implicit"},
	{from: "pkg/mutate", to: module + "pkg/validate", why: "mutate cannot fail, so it has nothing to judge"},
	{from: "pkg/validate", to: module + "pkg/domain", why: "a spec is legal or not whatever the XML looks like"},
	{from: "pkg/record", to: module + "pkg/domain", why: "controllers read records and have no domains"},
	{from: "pkg/address", to: module + "pkg/domain", why: "rules and records need addresses, and no domains"},
	{from: "pkg/admit", to: module + "pkg/domain", why: "stage 1 ends with the explicit spec"},
	{from: "pkg/domain/", to: module + "pkg/admit", why: "stage 2 begins with the explicit spec"},
	{from: "pkg/domain/", to: module + "pkg/mutate", why: "domain only spells the explicit spec; defaults are over by then"},
	{from: "pkg/domain/", to: module + "pkg/validate", why: "accepted implies renders is a property test, not an arrow"},
	{from: "pkg/domain/", to: module + "pkg/instancetype", why: "instancetypes are applied before stage 2"},
	{from: "pkg/domain/", to: module + "pkg/preset", why: "presets are applied before stage 2"},
	{from: "pkg/domain/", to: module + "pkg/profile", why: "profiles are applied before stage 2"},
	{from: "pkg/domain/backend", to: module + "pkg/domain/frontend", why: "stage 3 sees a finished frontend, not its making"},
	{from: "pkg/domain/frontend", to: module + "pkg/domain/backend", why: "what the guest sees does not depend on the host"},
	{from: "", to: "libvirt.org/go/libvirtxml", except: []string{"pkg/domain/", "pkg/render", "internal/hypervisor", "internal/workbench", "test/"},
		why: "XML is the concern of stages 2 and 3 and of those who run or print them"},
	{from: "", to: "github.com/google/cel-go", except: []string{"pkg/policy"}, why: "what an expression may name, cost and read is decided in one package"},
	{from: "pkg/", to: "k8s.io/apiserver", except: []string{"pkg/policy"}, why: "the engine is no API server: its CEL environment alone is used, by policies"},
	{from: "pkg/policy", to: "k8s.io/apiserver/pkg/admission",
		why: "the engine of ValidatingAdmissionPolicy brings the client, informers and authorizers of an API server"},
	{from: "pkg/policy", to: module + "pkg/admit", why: "a policy judges what stage 1 has made; it makes nothing"},
	{from: "internal/workbench", to: "github.com/spf13/", why: "the workbench returns values; the command line is one of those who show them"},
	{from: "internal/workbench", to: "k8s.io/cli-runtime/pkg/genericclioptions", why: "the workbench returns values, and has neither flags nor streams"},
}

// goPackage is what 'go list -json' says of one package.
type goPackage struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
	Deps       []string
	// TestImports and XTestImports are imports of the tests.
	TestImports, XTestImports []string
}

func list(t *testing.T, args ...string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,GoFiles,Imports,Deps,TestImports,XTestImports"}, args...)...)
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var packages []goPackage
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p goPackage
		if err := decoder.Decode(&p); err == io.EOF {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

func TestNeverArrows(t *testing.T) {
	packages := list(t, "./...")
	if len(packages) < 10 {
		t.Fatalf("go list found %d packages; the test looks at the wrong tree", len(packages))
	}
	for _, p := range packages {
		from := strings.TrimPrefix(p.ImportPath, module)
		for _, arrow := range never {
			if !strings.HasPrefix(from, arrow.from) || slices.ContainsFunc(arrow.except, func(e string) bool { return strings.HasPrefix(from, e) }) {
				continue
			}
			for _, to := range p.Imports {
				if to == arrow.to || strings.HasPrefix(to, strings.TrimSuffix(arrow.to, "/")+"/") && strings.Contains(arrow.to, ".") {
					t.Errorf("%s imports %s: %s", from, to, arrow.why)
				}
			}
		}
	}
}

// TestEngineStartsNoLibvirt: tests that start one are in packages of their own, such as test/frontends and test/backends.
func TestEngineStartsNoLibvirt(t *testing.T) {
	for _, p := range list(t, engine...) {
		if slices.Contains(slices.Concat(p.TestImports, p.XTestImports), module+"test/libvirt") {
			t.Errorf("tests of %s start a libvirtd: it takes seconds", p.ImportPath)
		}
	}
}

// FrontendDefaults is the only part of config that domain may know: the rest is stage 1's.
func TestDomainUsesFrontendDefaultsAlone(t *testing.T) {
	eachFile(t, "./pkg/domain/...", func(name string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == "config" && id.Obj == nil &&
				!slices.Contains([]string{"FrontendDefaults", "SMBIOS", "BIOS"}, sel.Sel.Name) {
				t.Errorf("%s uses config.%s: domain may know FrontendDefaults alone", name, sel.Sel.Name)
			}
			return true
		})
	})
}

// neverLinked lists indirect imports too: none of the packages may depend on a package that starts with to.
var neverLinked = []struct {
	packages []string
	to, why  string
}{
	{engine, "k8s.io/client-go/", "importers of the engine would get a cluster client"},
	{engine, "sigs.k8s.io/controller-runtime/", "importers of the engine would get a cluster client"},
	{admission, "libvirt.org/go/libvirtxml", "admission renders nothing"},
	{servers, "github.com/sigstore/", "only kubectl-kiln verifies catalogs"},
	{servers, "oras.land/", "only kubectl-kiln pulls and pushes catalogs"},
	{page, "oras.land/", "a web page runs these commands, and has no registry"},
	{page, "sigs.k8s.io/kustomize/", "a web page runs these commands, and builds no kustomization"},
	{page, "k8s.io/cli-runtime/pkg/genericclioptions", "a web page runs these commands, and has no kubeconfig"},
}

var (
	engine    = []string{"./pkg/..."}
	admission = []string{"./cmd/webhook", "./pkg/admit", "./pkg/identity", "./pkg/patch", "./pkg/record", "./pkg/validate"}
	page      = []string{"./internal/cli/guestcmd"}
	servers   = []string{"./cmd/webhook", "./cmd/controller", "./cmd/apiserver", "./cmd/launcher"}
)

// TestNeverLinked requires that kubectl-kiln, which has everything, links what the others do not: a module that was renamed would be searched for in vain.
func TestNeverLinked(t *testing.T) {
	everything := list(t, "./cmd/kubectl-kiln")[0].Deps
	for _, rule := range neverLinked {
		with := func(dep string) bool { return strings.HasPrefix(dep, rule.to) }
		if !slices.ContainsFunc(everything, with) {
			t.Errorf("kubectl-kiln does not link %s: the rule finds nothing", rule.to)
		}
		for _, p := range list(t, rule.packages...) {
			if i := slices.IndexFunc(p.Deps, with); i >= 0 {
				t.Errorf("%s depends on %s: %s; 'go list -deps' and 'go mod why' name the way", p.ImportPath, p.Deps[i], rule.why)
			}
		}
	}
}

// TestWorkbenchPrintsNothing: what it has to say, warnings included, is in the values that it returns.
func TestWorkbenchPrintsNothing(t *testing.T) {
	eachFile(t, "./internal/workbench/...", func(name string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			s := selector(sel)
			if s == "os.Stdout" || s == "os.Stderr" || strings.HasPrefix(s, "fmt.Print") || strings.HasPrefix(s, "fmt.Fprint") {
				t.Errorf("%s uses %s: return what is to be printed", name, s)
			}
			return true
		})
	})
}

func eachFile(t *testing.T, pattern string, visit func(name string, file *ast.File)) {
	t.Helper()
	files := 0
	for _, p := range list(t, pattern) {
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			files++
			visit(strings.TrimPrefix(p.ImportPath, module)+"/"+name, file)
		}
	}
	if files == 0 {
		t.Fatalf("no files match %s", pattern)
	}
}

// TestCatalogKindsStandOnce: a list of the kinds of instancetypes and preferences that is written by hand misses one some day.
func TestCatalogKindsStandOnce(t *testing.T) {
	eachFile(t, "./...", func(name string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if ok && slices.Contains(instancetype.CatalogKinds(), strings.Trim(literal.Value, `"`)) && name != "pkg/instancetype/kinds.go" {
				t.Errorf("%s spells the kind %s: take it from pkg/instancetype/kinds.go", name, literal.Value)
			}
			return true
		})
	})
}
