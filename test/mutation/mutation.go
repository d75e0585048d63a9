// Package mutation finds out which conditions of a package its own tests need. It changes one condition at a time, runs the tests, and
// reports the changes that no test notices.
//
// All changes are compiled into one test binary, each behind a switch, so that a change costs a run of the tests and no build. The
// sources stay as they are: go build reads the changed ones through -overlay.
package mutation

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Mutant is a change of one condition.
type Mutant struct {
	// ID is the number by which the test binary knows the change, from 1.
	ID int
	// File, which begins with the name of its package, and Line are where the condition stands. Function is what it belongs to, "var"
	// outside of all.
	File, Function string
	Line           int
	// Was is the condition as it is written, Now its replacement.
	Was, Now string
}

// String returns the mutant without its line, because every edit moves lines.
func (m Mutant) String() string {
	return fmt.Sprintf("%s %s: %s => %s", m.File, m.Function, m.Was, m.Now)
}

// source is a file of the package with the switches for its mutants.
type source struct {
	// name is the File of its mutants.
	name    string
	text    []byte
	mutants []Mutant
	edits   []edit
}

// edit puts text at an offset. At one offset, the edits of outer expressions come first where the expressions begin, and last where they end.
type edit struct {
	at, order int
	text      string
}

// boundaries are the comparisons that differ only in the equal case.
var boundaries = map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}

// readConditions finds the conditions of a file. Numbers of mutants begin after first.
func readConditions(path string, first int) (*source, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	s := &source{name: filepath.Base(filepath.Dir(path)) + "/" + filepath.Base(path)}
	if s.text, err = os.ReadFile(path); err != nil {
		return nil, err
	}
	for _, declaration := range parsed.Decls {
		of := "var"
		if function, is := declaration.(*ast.FuncDecl); is {
			of = function.Name.Name
		}
		for depth, expr := range conditionsIn(declaration) {
			s.addSwitches(files, expr, Mutant{ID: first + len(s.mutants) + 1, File: s.name, Function: of}, depth)
		}
	}
	return s, nil
}

// conditionsIn returns the expressions that decide: the conditions of if, for and case, comparisons, and the parts of && and ||. Outer ones come first.
func conditionsIn(declaration ast.Decl) (list []ast.Expr) {
	add := func(expr ast.Expr) {
		if expr != nil && !slices.Contains(list, expr) {
			list = append(list, expr)
		}
	}
	ast.Inspect(declaration, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			add(n.Cond)
		case *ast.ForStmt:
			add(n.Cond)
		case *ast.SwitchStmt:
			if n.Tag == nil {
				for _, clause := range n.Body.List {
					for _, expr := range clause.(*ast.CaseClause).List {
						add(expr)
					}
				}
			}
		case *ast.BinaryExpr:
			switch n.Op {
			case token.LAND, token.LOR:
				add(n)
				add(n.X)
				add(n.Y)
			case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
				add(n)
			}
		}
		return true
	})
	return list
}

// addSwitches puts switches around a condition: one that negates it, and for a comparison one that moves its boundary.
func (s *source) addSwitches(files *token.FileSet, expr ast.Expr, m Mutant, depth int) {
	start, end := files.Position(expr.Pos()).Offset, files.Position(expr.End()).Offset
	m.Line, m.Was = files.Position(expr.Pos()).Line, oneLine(s.text[start:end])
	m.Now = "!(" + m.Was + ")"
	s.mutants = append(s.mutants, m)
	open, closing := fmt.Sprintf("mutantNegates(%d, ", m.ID), ")"
	if comparison, is := expr.(*ast.BinaryExpr); is && boundaries[comparison.Op] != "" {
		at := files.Position(comparison.OpPos).Offset
		other := string(s.text[start:at]) + boundaries[comparison.Op] + string(s.text[at+len(comparison.Op.String()):end])
		m.ID, m.Now = m.ID+1, oneLine([]byte(other))
		s.mutants = append(s.mutants, m)
		open += fmt.Sprintf("mutantReplaces(%d, ", m.ID)
		closing = ", " + m.Now + "))"
	}
	s.edits = append(s.edits, edit{start, depth, open}, edit{end, -depth, closing})
}

func oneLine(text []byte) string { return strings.Join(strings.Fields(string(text)), " ") }

// mutatedText returns the file with all its switches.
func (s *source) mutatedText() []byte {
	slices.SortStableFunc(s.edits, func(a, b edit) int {
		if a.at != b.at {
			return a.at - b.at
		}
		return a.order - b.order
	})
	var out bytes.Buffer
	last := 0
	for _, e := range s.edits {
		out.Write(s.text[last:e.at])
		out.WriteString(e.text)
		last = e.at
	}
	out.Write(s.text[last:])
	return out.Bytes()
}

// switches are the functions that the changed files call. MUTANT is the number of the one change that is in effect.
const switches = `package %s

import (
	"os"
	"strconv"
)

var mutant, _ = strconv.Atoi(os.Getenv("MUTANT"))

func mutantNegates(number int, condition bool) bool { return condition != (mutant == number) }

func mutantReplaces(number int, condition, other bool) bool {
	if mutant == number {
		return other
	}
	return condition
}
`
