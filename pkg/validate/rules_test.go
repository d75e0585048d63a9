package validate_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// withoutTable are files that have no table yet. A rule of theirs needs no case.
var withoutTable = strings.Fields(`
	catalog counts cpu cpu_cells devices devices_architecture devices_names
	disks disks_blocksize disks_cloudinit disks_requests disks_sources disks_templates disks_volumes
	features firmware hostdevices hostdevices_claims hostdevices_grace iothreads machine memory memory_growth
	networks networks_addresses networks_interfaces networks_ports
	placement placement_affinity placement_dns resources security security_credentials security_metadata security_record
	updates vm vm_state
`)

// TestEachRuleHasBothSides: a rule refuses one object of its file's table at least, and leaves the nearest legal one alone.
func TestEachRuleHasBothSides(t *testing.T) {
	for file, names := range namesByFile(t) {
		if slices.Contains(withoutTable, file) {
			if tables[file] != nil {
				t.Errorf("%s.go has a table: it is not without", file)
			}
			continue
		}
		refused, legal := map[string]bool{}, map[string]bool{}
		for _, c := range tables[file] {
			if !slices.Contains(names, c.rule) {
				t.Errorf("table '%s' has a case of rule '%s', which %s.go does not have", file, c.rule, file)
			}
			if len(c.want) > 0 {
				refused[c.rule] = true
			} else {
				legal[c.rule] = true
			}
		}
		for _, name := range names {
			if !refused[name] {
				t.Errorf("no case of table '%s' is refused by rule '%s'", file, name)
			}
			if !legal[name] {
				t.Errorf("no case of table '%s' is what rule '%s' only just allows", file, name)
			}
		}
	}
}

// TestEachFileHasItsTest: the table of a file is in the file beside it.
func TestEachFileHasItsTest(t *testing.T) {
	for file := range namesByFile(t) {
		if beside, err := filepath.Glob(file + "_test.go"); err != nil || len(beside) == 0 && !slices.Contains(withoutTable, file) {
			t.Errorf("%s.go has no %s_test.go: %v", file, file, err)
		}
	}
}

// namesByFile are the names of the rules, by the file that marks errors with them.
func namesByFile(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string][]string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		of := map[string]bool{}
		for _, name := range origins(t, file) {
			of[name] = true
		}
		if len(of) > 0 {
			names[strings.TrimSuffix(file, ".go")] = slices.Sorted(maps.Keys(of))
		}
	}
	return names
}

// origins are the texts that errors of a file are marked with.
func origins(t *testing.T, file string) (names []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is {
			return true
		}
		if method, is := call.Fun.(*ast.SelectorExpr); is && method.Sel.Name == "WithOrigin" {
			name, err := strconv.Unquote(call.Args[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		return true
	})
	return names
}
