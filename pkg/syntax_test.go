package pkg_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
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

// TestErrorsAreChainedByIf: Go evaluates each argument of cmp.Or, so that the second call is made although the first one has failed.
func TestErrorsAreChainedByIf(t *testing.T) {
	eachFile(t, "./...", func(name string, file *ast.File) {
		for _, found := range errorsByOr(file) {
			t.Errorf("%s: cmp.Or calls '%s' also if an earlier argument is an error: chain them by if", name, found)
		}
	})
}

// TestErrorsByOr: what TestErrorsAreChainedByIf finds, and what it allows.
func TestErrorsByOr(t *testing.T) {
	for body, want := range map[string][]string{
		"func f() error { return cmp.Or(a(), b()) }":                                          {"a", "b"},
		"func f() (n int, err error) { return 1, cmp.Or(err, x.b()) }":                        {"x.b"},
		"func f() { g(func() error { return cmp.Or(err, b()) }) }":                            {"b"},
		"func f() { if err = cmp.Or(err, b()); err != nil { return } }":                       {"b"},
		"func f() { readErr := cmp.Or(a(), b()) }":                                            {"a", "b"},
		"func f() { g(cmp.Or(err, ctx.Err())) }":                                              {"ctx.Err"},
		"func f() string { return cmp.Or(a(ctx), c) }":                                        {"a"}, // whatever the type: a call with a context acts
		"func f() error { return cmp.Or(first, second) }":                                     nil,
		"func f() (string, error) { return cmp.Or(a(), b()), nil }":                           nil,
		"func f() error { s := cmp.Or(a(), b()); return nil }":                                nil,
		"func f() error { g(func() int { return cmp.Or(a(), b()) }); return nil }":            nil,
		"func f() error { slices.SortFunc(l, func(a, b T) int { return cmp.Or(c(), d()) }) }": nil,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p; import \"cmp\"; "+body, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := errorsByOr(file); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

// errorsByOr returns the calls among the arguments of each cmp.Or that makes an error: one that is returned as an error, one that is assigned to a variable
// whose name ends in err, and one that has an argument err. Without types, others are not found.
func errorsByOr(file *ast.File) (calls []string) {
	seen := map[ast.Expr]bool{}
	add := func(value ast.Expr, isError bool) {
		or, is := value.(*ast.CallExpr)
		if !is || seen[or] || fmt.Sprint(selector(or.Fun)) != "cmp.Or" {
			return
		}
		for _, argument := range or.Args {
			call, is := argument.(*ast.CallExpr)
			if is && (isError || acts(call)) {
				seen[or] = true
				calls = append(calls, cmp.Or(selector(call.Fun), fmt.Sprint(call.Fun)))
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			eachReturned(n.Type, n.Body, add)
		case *ast.FuncLit:
			eachReturned(n.Type, n.Body, add)
		case *ast.AssignStmt:
			for i, target := range n.Lhs {
				if id, is := target.(*ast.Ident); is && len(n.Lhs) == len(n.Rhs) {
					add(n.Rhs[i], isErr(id))
				}
			}
		case *ast.CallExpr:
			add(n, slices.ContainsFunc(n.Args, isErr))
		}
		return true
	})
	return calls
}

// eachReturned visits the values that a function returns, and not the values that functions within it return.
func eachReturned(of *ast.FuncType, body *ast.BlockStmt, visit func(value ast.Expr, isError bool)) {
	if of.Results == nil || body == nil {
		return
	}
	var isError []bool
	for _, result := range of.Results.List {
		id, is := result.Type.(*ast.Ident)
		isError = append(isError, slices.Repeat([]bool{is && id.Name == "error"}, max(len(result.Names), 1))...)
	}
	ast.Inspect(body, func(n ast.Node) bool {
		if statement, is := n.(*ast.ReturnStmt); is && len(statement.Results) == len(isError) {
			for i, value := range statement.Results {
				visit(value, isError[i])
			}
		}
		_, inner := n.(*ast.FuncLit)
		return !inner
	})
}

// isErr reports whether an expression is a variable whose name ends in err.
func isErr(e ast.Expr) bool {
	id, is := e.(*ast.Ident)
	return is && strings.HasSuffix(strings.ToLower(id.Name), "err")
}

// acts reports whether a call has the context as its argument.
func acts(call *ast.CallExpr) bool {
	if len(call.Args) == 0 {
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
