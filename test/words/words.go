// Package words finds words in Go files, pages and comments of YAML that a reader from outside has to read twice. list.go has the words, and what to write
// instead.
package words

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// finding is a word or phrase of the list in a file. It reaches from line First to line Last.
type finding struct {
	First, Last int
	word
}

// find returns what a file contains of the list, in the order of its lines. Only Go, Markdown, and the comments of YAML are searched.
func find(name string, content []byte) ([]finding, error) {
	switch {
	case strings.HasSuffix(name, ".go"):
		return findInGo(content)
	case strings.HasSuffix(name, ".md"):
		return findInMarkdown(string(content)), nil
	case strings.HasSuffix(name, ".yaml"):
		return findInYAML(string(content)), nil
	}
	return nil, nil
}

func findInGo(content []byte) ([]finding, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(file) {
		return nil, err
	}
	line := func(n ast.Node) int { return files.Position(n.Pos()).Line }
	var found []finding
	for _, group := range file.Comments {
		var text strings.Builder
		for _, comment := range group.List {
			// Markers are dropped, so that a phrase may begin on one line and end on the next one.
			text.WriteString(strings.TrimLeft(comment.Text, "/*") + "\n")
		}
		found = append(found, findPhrases(text.String(), line(group))...)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		for _, name := range declared(n) {
			found = append(found, findInName(name.Name, line(name))...)
		}
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false // a path is no sentence
		case *ast.FuncDecl:
			if n.Name.Name == verb.text {
				found = append(found, finding{line(n.Name), line(n.Name), verb})
			}
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
				if n.Value[0] != '`' {
					text = strings.ReplaceAll(text, "\n", " ") // all of it stands on one line of the file
				}
				found = append(found, findPhrases(text, line(n))...)
			}
		}
		return true
	})
	slices.SortStableFunc(found, func(a, b finding) int { return a.First - b.First })
	return found, nil
}

// findInYAML searches blocks of lines that are comments. A comment behind a value is not searched, because '#' is also a character of strings.
func findInYAML(content string) (found []finding) {
	var block strings.Builder
	first, number := 1, 0
	end := func() {
		found = append(found, findPhrases(block.String(), first)...)
		block.Reset()
		first = number + 1
	}
	for line := range strings.Lines(content) {
		number++
		if comment, is := strings.CutPrefix(strings.TrimSpace(line), "#"); is {
			block.WriteString(comment + "\n")
			continue
		}
		end()
	}
	number++
	end()
	return found
}

// declared returns the names that a node declares. Uses of a name are not judged: it may be from another module.
func declared(n ast.Node) []*ast.Ident {
	switch n := n.(type) {
	case *ast.File:
		return []*ast.Ident{n.Name}
	case *ast.FuncDecl:
		return []*ast.Ident{n.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{n.Name}
	case *ast.ValueSpec:
		return n.Names
	case *ast.Field: // of structs and interfaces; parameters and results
		return n.Names
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			return identifiersIn(n.Lhs...)
		}
	case *ast.RangeStmt:
		if n.Tok == token.DEFINE {
			return identifiersIn(n.Key, n.Value)
		}
	}
	return nil
}

func identifiersIn(expressions ...ast.Expr) (out []*ast.Ident) {
	for _, e := range expressions {
		if id, is := e.(*ast.Ident); is {
			out = append(out, id)
		}
	}
	return out
}

// findInName looks for words in a name in camelCase: 'room' is in leaveRoom and RoomOf, and not in mushroom.
func findInName(name string, line int) (found []finding) {
	for _, part := range split(name) {
		for _, w := range identifiers {
			if part == w.text {
				found = append(found, finding{line, line, w})
			}
		}
	}
	return found
}

// boundary is the end of a word in camelCase: told|You, HTTP|Room.
var boundary = regexp.MustCompile(`([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])`)

// split returns the words of a name in camelCase, in lower case.
func split(name string) []string {
	return strings.FieldsFunc(strings.ToLower(boundary.ReplaceAllString(name, "${1}${3}_${2}${4}")), func(r rune) bool { return r == '_' })
}

// code is a code span of Markdown, which quotes what stands elsewhere.
var code = regexp.MustCompile("`[^`]*`")

// findInMarkdown judges each paragraph, list and table of a page. It leaves out code: fences, spans, and lines that are indented by four columns.
func findInMarkdown(text string) (found []finding) {
	var block strings.Builder
	first, fenced := 0, false
	end := func() {
		// What is left out keeps its line breaks, so that lines can be counted.
		plain := code.ReplaceAllStringFunc(block.String(), func(s string) string { return "`" + strings.Repeat("\n", strings.Count(s, "\n")) })
		found = append(found, findPhrases(plain, first)...)
		block.Reset()
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence {
			fenced = !fenced
		}
		if fence || fenced || strings.TrimSpace(line) == "" || strings.HasPrefix(line, "    ") {
			end()
			continue
		}
		if block.Len() == 0 {
			first = number
		}
		block.WriteString(line)
	}
	end()
	return found
}

// findPhrases looks for phrases in a text whose first line has a number. A phrase may go on in the next line.
func findPhrases(text string, first int) (found []finding) {
	for i, w := range phrases {
		for _, at := range patterns[i].FindAllStringIndex(text, -1) {
			begin := first + strings.Count(text[:at[0]], "\n")
			found = append(found, finding{begin, begin + strings.Count(text[at[0]:at[1]], "\n"), w})
		}
	}
	slices.SortStableFunc(found, func(a, b finding) int { return a.First - b.First })
	return found
}

// patterns are the expressions for phrases, in their order.
var patterns = func() (all []*regexp.Regexp) {
	for _, w := range phrases {
		all = append(all, regexp.MustCompile(`(?i)\b`+strings.ReplaceAll(w.text, " ", `\s+`)+`\b`))
	}
	return all
}()
