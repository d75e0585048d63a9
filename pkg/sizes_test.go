package pkg_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A package of internal/ that has more lines, and a type that has more methods, does more than one thing. Files and functions have no limit.
const (
	mostLines   = 3000
	mostMethods = 40
)

// TestSizesOfInternalPackages: no package of internal/ has more than mostLines lines, and none of its types more than mostMethods methods, without tests.
func TestSizesOfInternalPackages(t *testing.T) {
	for _, p := range list(t, "./internal/...") {
		name, lines, methods := strings.TrimPrefix(p.ImportPath, module), 0, map[string]int{}
		for _, file := range p.GoFiles {
			path := filepath.Join("..", name, file)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines += bytes.Count(text, []byte("\n"))
			parsed, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, decl := range parsed.Decls {
				if f, is := decl.(*ast.FuncDecl); is && f.Recv != nil {
					methods[receiverOf(f)]++
				}
			}
		}
		if lines > mostLines {
			t.Errorf("%s has %d lines, more than %d", name, lines, mostLines)
		}
		for receiver, n := range methods {
			if n > mostMethods {
				t.Errorf("%s: type %s has %d methods, more than %d", name, receiver, n, mostMethods)
			}
		}
	}
}

// receiverOf returns the name of the type that a method belongs to.
func receiverOf(f *ast.FuncDecl) string {
	receiver := f.Recv.List[0].Type
	if pointer, is := receiver.(*ast.StarExpr); is {
		receiver = pointer.X
	}
	if generic, is := receiver.(*ast.IndexExpr); is {
		receiver = generic.X
	}
	if name, is := receiver.(*ast.Ident); is {
		return name.Name
	}
	return ""
}
