package pkg_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// What the engine must not do, whatever it imports: part of the policy in arch_test.go.

// forbiddenCalls by package name and function prefix, with the reason.
var forbiddenCalls = []struct{ pkg, prefix, why string }{
	{"time", "Now", "the engine has no clock"},
	{"time", "Since", "the engine has no clock"},
	{"time", "After", "the engine has no clock"},
	{"time", "Sleep", "the engine has no clock"},
	{"v1", "SetObjectDefaults_", "KubeVirt's generated defaults draw random UUIDs"},
}

func TestEngineSyntax(t *testing.T) {
	eachFile(t, "./pkg/...", func(name string, file *ast.File) {
		vars := packageVariables(file)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Name.Name == "init" && n.Recv == nil {
					t.Errorf("%s: init(): nothing happens behind the reader's back", name)
				}
			case *ast.FuncType:
				for _, p := range n.Params.List {
					if fmt.Sprint(selector(p.Type)) == "context.Context" {
						t.Errorf("%s: context.Context parameter: the engine neither waits nor is cancelled", name)
					}
				}
			case *ast.CallExpr:
				for _, f := range forbiddenCalls {
					if s := selector(n.Fun); strings.HasPrefix(s, f.pkg+"."+f.prefix) {
						t.Errorf("%s calls %s: %s", name, s, f.why)
					}
				}
			case *ast.AssignStmt:
				for _, target := range n.Lhs {
					if id := root(target); n.Tok == token.ASSIGN && id != nil && vars[id.Obj] {
						t.Errorf("%s assigns the package variable %s: variables are never written after their declaration", name, id.Name)
					}
				}
			}
			return true
		})
	})
}

// TestErrorsAreChainedByIf: Go evaluates each argument of cmp.Or, so that a second call acts although the first one has failed. Calls that act take a context.
func TestErrorsAreChainedByIf(t *testing.T) {
	eachFile(t, "./...", func(name string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is || fmt.Sprint(selector(call.Fun)) != "cmp.Or" {
				return true
			}
			for _, argument := range call.Args {
				if acts(argument) {
					t.Errorf("%s: an argument of cmp.Or acts, also if an earlier one is an error: chain them by if", name)
				}
			}
			return true
		})
	})
}

// acts reports whether an expression is a call with the context as its argument.
func acts(argument ast.Expr) bool {
	call, is := argument.(*ast.CallExpr)
	if !is || len(call.Args) == 0 {
		return false
	}
	first, is := call.Args[0].(*ast.Ident)
	return is && first.Name == "ctx"
}

// packageVariables are the objects of a file's top-level var declarations.
//
//nolint:staticcheck // the deprecated field resolves names within one file, which is enough here
func packageVariables(file *ast.File) map[*ast.Object]bool {
	//nolint:staticcheck // see above
	vars := map[*ast.Object]bool{}
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.VAR {
			continue
		}
		for _, spec := range gen.Specs {
			for _, id := range spec.(*ast.ValueSpec).Names {
				vars[id.Obj] = true
			}
		}
	}
	return vars
}

func selector(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		if id, ok := s.X.(*ast.Ident); ok {
			return id.Name + "." + s.Sel.Name
		}
	}
	return ""
}

// root is the variable that an assignment to a.b[c] writes into.
func root(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.Ident:
		if e.Obj == nil {
			return nil
		}
		return e
	case *ast.SelectorExpr:
		return root(e.X)
	case *ast.IndexExpr:
		return root(e.X)
	}
	return nil
}
