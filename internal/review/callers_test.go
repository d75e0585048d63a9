package review

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// engine is the package whose entry points below run stage 1.
const engine = "github.com/kilnvm/kiln/pkg/admit"

var entries = []string{"VM", "VMI", "Judge", "ExplainVM", "ExplainVMI", "ExplainGuest", "Steps"}

// callers may run stage 1 by themselves. All others go through this package: five of them composed it by hand before, and each in another way.
var callers = []struct{ file, why string }{
	{"internal/review/", "the owner of stage 1 at the edge"},
	{"internal/workbench/stages.go", "shows the steps of what has been reviewed"},
	{"pkg/", "the engine's own tests; the engine itself must not call it, see pkg/arch_test.go"},
	{"test/corpus/laws_test.go", "tries neighbours of reviewed cases, which refer to generated values instead of objects"},
	{"test/corpus/pod.go", "starts at the plainest VMI, without references: pods of cases are written as their difference to its pod"},
	{"test/corpus/profile_laws_test.go", "explains the same neighbours, with generated profiles"},
	{"test/backends/", "makes the guests, without references, of the tests of stage 3"},
	{"test/conformance/accepted.go", "the recorded instancetypes and preferences are specs without objects"},
	{"test/explicit/", "makes the VMIs, without references, of tests of stages 2 and 3"},
	{"test/frontends/", "makes the VMI of each device model, without references, and is about stage 2"},
	{"test/hooked/", "starts at a VMI without references, with KubeVirt's defaults, and is about stage 2"},
	{"test/machines/", "starts at a VMI without references, and is about stages 2 and 3"},
	{"test/domains/", "starts at a VMI without references, and is about stages 2 and 3"},
	{"test/matrix/", "tries each pair of a catalog that it has read already"},
	{"test/fields/evidence.go", "starts at a VMI without references"},
	{"test/bench/render_test.go", "starts at a VMI without references, and is about stages 2 and 3"},
}

// TestCallersOfStage1: nobody else composes stage 1 by hand.
func TestCallersOfStage1(t *testing.T) {
	used := map[string]bool{}
	eachFile(t, "../..", func(name string, file *ast.File) {
		local := imported(file, engine)
		if local == "" {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if id, ok := selector.X.(*ast.Ident); !ok || id.Name != local || !slices.Contains(entries, selector.Sel.Name) {
				return true
			}
			for _, caller := range callers {
				if strings.HasPrefix(name, caller.file) {
					used[caller.file] = true
					return true
				}
			}
			t.Errorf("%s uses %s.%s: review the object with internal/review, which resolves and judges as the webhook does", name, local, selector.Sel.Name)
			return true
		})
	})
	for _, caller := range callers {
		if !used[caller.file] {
			t.Errorf("%s runs stage 1 no more: strike it from the list of callers", caller.file)
		}
	}
}

// TestVerbsAreShort: a verb of admission decodes, reviews, patches and answers. What else it does belongs to this package.
func TestVerbsAreShort(t *testing.T) {
	const most = 15
	verbs := 0
	eachFile(t, "../admission", func(name string, file *ast.File) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		for _, declared := range file.Decls {
			f, ok := declared.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "mutate") && !strings.HasPrefix(f.Name.Name, "validate") {
				continue
			}
			verbs++
			if lines := files.Line(f.End()) - files.Line(f.Pos()) + 1; lines > most {
				t.Errorf("%s: %s has %d lines, at most %d", name, f.Name.Name, lines, most)
			}
		}
	})
	if verbs < 8 {
		t.Errorf("%d verbs found: the test looks at the wrong folder", verbs)
	}
}

// positions has the positions of the files that were read.
type positions struct{ *token.FileSet }

func (p positions) Line(at token.Pos) int { return p.Position(at).Line }

var files = positions{token.NewFileSet()}

// eachFile visits the Go files of a folder, by their names in it, and leaves other modules out.
func eachFile(t *testing.T, dir string, visit func(name string, file *ast.File)) {
	t.Helper()
	found := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != dir || strings.HasPrefix(entry.Name(), ".") && len(entry.Name()) > 2 {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(files.FileSet, path, nil, 0)
		if err != nil {
			return err
		}
		found++
		name, err := filepath.Rel(dir, path)
		visit(filepath.ToSlash(name), file)
		return err
	})
	if err != nil || found == 0 {
		t.Fatalf("%d Go files in %s: %v", found, dir, err)
	}
}

// imported is the name by which a file calls a package; empty if it does not import it.
func imported(file *ast.File, path string) string {
	for _, spec := range file.Imports {
		if value, err := strconv.Unquote(spec.Path.Value); err != nil || value != path {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path[strings.LastIndex(path, "/")+1:]
	}
	return ""
}
