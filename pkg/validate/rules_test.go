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

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/validate"
)

// TestEachRuleHasBothSides: a rule refuses one object of its file's table at least, and leaves the nearest legal one alone.
func TestEachRuleHasBothSides(t *testing.T) {
	for file, names := range namesByFile(t) {
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
		if beside, err := filepath.Glob(file + "_test.go"); err != nil || len(beside) == 0 {
			t.Errorf("%s.go has no %s_test.go: %v", file, file, err)
		}
	}
}

// TestEachNameHasOneLiteral: an error bears a name that one literal declares, and a name that is declared is borne by some error.
func TestEachNameHasOneLiteral(t *testing.T) {
	borne, literals := map[string]bool{}, map[string]int{}
	for _, file := range sources(t) {
		for _, name := range origins(t, file) {
			borne[name] = true
		}
		for _, name := range literalNames(t, file) {
			literals[name]++
		}
	}
	for name, times := range literals {
		if times > 1 {
			t.Errorf("rule '%s' has %d literals", name, times)
		}
	}
	var names []string
	for _, rule := range validate.Rules() {
		names = append(names, rule.Name)
		if rule.Area() == "" || rule.Area() == rule.Name {
			t.Errorf("rule '%s' is of no area", rule.Name)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(literals)), names); diff != "" {
		t.Errorf("literals that Rules does not know (-), or rules without literal (+):\n%s", diff)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(borne)), names); diff != "" {
		t.Errorf("errors of rules that are not declared (-), or rules of no error (+):\n%s", diff)
	}
}

// namesByFile are the names of the rules, by the file that marks errors with them.
func namesByFile(t *testing.T) map[string][]string {
	t.Helper()
	names := map[string][]string{}
	for name, file := range sources(t) {
		of := map[string]bool{}
		for _, origin := range origins(t, file) {
			of[origin] = true
		}
		if len(of) > 0 {
			names[strings.TrimSuffix(name, ".go")] = slices.Sorted(maps.Keys(of))
		}
	}
	return names
}

// sources are the files of the package without its tests.
func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if files[name], err = parser.ParseFile(token.NewFileSet(), name, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// origins are the texts that errors of a file are marked with.
func origins(t *testing.T, file *ast.File) (names []string) {
	t.Helper()
	ast.Inspect(file, func(n ast.Node) bool {
		if call, is := n.(*ast.CallExpr); is {
			if method, is := call.Fun.(*ast.SelectorExpr); is && method.Sel.Name == "WithOrigin" {
				names = append(names, text(t, call.Args[0]))
			}
		}
		return true
	})
	return names
}

// literalNames are the names of the rules that are written in a file.
func literalNames(t *testing.T, file *ast.File) (names []string) {
	t.Helper()
	ast.Inspect(file, func(n ast.Node) bool {
		list, is := n.(*ast.CompositeLit)
		if !is {
			return true
		}
		if array, is := list.Type.(*ast.ArrayType); !is || !isRule(array.Elt) {
			return true
		}
		for _, element := range list.Elts {
			for _, part := range element.(*ast.CompositeLit).Elts {
				if pair := part.(*ast.KeyValueExpr); pair.Key.(*ast.Ident).Name == "Name" {
					names = append(names, text(t, pair.Value))
				}
			}
		}
		return true
	})
	return names
}

func isRule(expr ast.Expr) bool {
	name, is := expr.(*ast.Ident)
	return is && name.Name == "Rule"
}

func text(t *testing.T, expr ast.Expr) string {
	t.Helper()
	literal, is := expr.(*ast.BasicLit)
	if !is {
		t.Fatal("the name of a rule is no literal")
	}
	value, err := strconv.Unquote(literal.Value)
	if err != nil {
		t.Fatal(err)
	}
	return value
}
