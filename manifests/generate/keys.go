package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// keyKinds are the prefixes of the names of constants of api/v1alpha1 that the page lists, with their headings.
var keyKinds = []struct{ prefix, heading, column string }{
	{"Annotation", "Annotations", "annotation"},
	{"Label", "Labels", "label"},
	{"Finalizer", "Finalizers", "finalizer"},
	{"Condition", "Condition types", "condition"},
	{"Reason", "Reasons of conditions and events", "reason"},
}

// keyWords has the constants that are values of a key, with a description of the key.
var keyWords = map[string]string{
	"HardwareLatest": "annotation `kilnvm.io/hardware`", "PinNone": "fields of annotation `kilnvm.io/pins`",
	"LifecycleActive": lifecycleLabel, "LifecycleDeprecated": lifecycleLabel, "LifecycleObsolete": lifecycleLabel,
	"AdmissionEnabled": admissionLabel, "AdmissionWarn": admissionLabel, "AdmissionDisabled": admissionLabel,
}

// admissionLabel describes the label whose values say what admission does in a namespace.
const admissionLabel = "label `kilnvm.io/admission`"

// lifecycleLabel describes the label whose values are lifecycles.
const lifecycleLabel = "label `kilnvm.io/lifecycle`"

// key is one constant, with its comment and the comment of its const group; group is empty if the constant is not in a group.
type key struct{ name, value, doc, group string }

// keysHeading is the beginning of the page.
const keysHeading = `# Annotations, conditions and reasons

This page lists every name that Kiln writes into objects or reads from them, except the names of ` + "`kubevirt.io/api`" + `.
` + "`make manifests`" + ` generates the page from the constants of ` + "`api/v1alpha1`" + ` and their comments. Values of annotations may come from a
tenant: [threat-model.md](../project/threat-model.md) explains how Kiln handles them.
`

// writeKeys writes the page about keys from the exported constants of the Go package in dir.
func writeKeys(dir, file string) error {
	keys, err := readConstants(dir)
	if err == nil && len(keys) == 0 {
		err = fmt.Errorf("%s has no constants", dir)
	}
	if err != nil {
		return err
	}
	var page strings.Builder
	page.WriteString(keysHeading)
	for _, kind := range keyKinds {
		of := slices.DeleteFunc(slices.Clone(keys), func(k key) bool { return !strings.HasPrefix(k.name, kind.prefix) })
		if len(of) == 0 {
			continue // the package has no constant of this kind
		}
		fmt.Fprintf(&page, "\n## %s\n", kind.heading)
		for i, key := range of {
			if i == 0 || kind.prefix == "Reason" && key.group != of[i-1].group {
				fmt.Fprintf(&page, "\n%s| %s | meaning |\n|---|---|\n", textAboveTable(kind.prefix, key), kind.column)
			}
			fmt.Fprintf(&page, "| `%s` | %s |\n", key.value, key.doc)
		}
	}
	page.WriteString("\n## Values\n\n| value | of | meaning |\n|---|---|---|\n")
	for _, key := range keys {
		if of := keyWords[key.name]; of != "" {
			fmt.Fprintf(&page, "| `%s` | %s | %s |\n", key.value, of, key.doc)
		}
	}
	return os.WriteFile(file, []byte(page.String()), 0o644)
}

// textAboveTable returns the text above a table. For reasons it is the comment of their group, because the meaning of a reason depends on its condition.
func textAboveTable(prefix string, key key) string {
	if prefix != "Reason" || key.group == "" {
		return ""
	}
	return key.group + "\n\n"
}

// readConstants returns the exported string constants of a package in the order of files and lines. It fails if one has no comment. In comments, names of
// constants are replaced by their values.
func readConstants(dir string) (keys []key, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	known := map[string]string{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, decl := range parsed.Decls {
			group, is := decl.(*ast.GenDecl)
			if !is || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				if err := addConstant(&keys, known, group, spec.(*ast.ValueSpec)); err != nil {
					return nil, fmt.Errorf("%s: %w", file, err)
				}
			}
		}
	}
	for i := range keys {
		keys[i].doc = cell.Replace(replaceNames(keys[i].doc, known))
		keys[i].group = replaceNames(keys[i].group, known)
	}
	return keys, nil
}

// addConstant appends one constant, whose value consists of literals and of constants above it. The comment of a constant outside of a group is the comment of
// its declaration.
func addConstant(keys *[]key, known map[string]string, group *ast.GenDecl, spec *ast.ValueSpec) error {
	name := spec.Names[0].Name
	value, is := textOf(spec.Values[0], known)
	if !is || !ast.IsExported(name) {
		return nil
	}
	known[name] = value
	doc, of := spec.Doc, oneLine(group.Doc)
	if !group.Lparen.IsValid() {
		doc, of = group.Doc, ""
	}
	if doc.Text() == "" {
		return fmt.Errorf("constant %s has no comment", name)
	}
	// Without the name of the constant, the sentence is about the value, which the page shows.
	*keys = append(*keys, key{name: name, value: value, doc: strings.TrimPrefix(oneLine(doc), name+" "), group: of})
	return nil
}

// oneLine returns a comment in one line, because a newline would end a row of the table.
func oneLine(comment *ast.CommentGroup) string {
	return strings.Join(strings.Fields(comment.Text()), " ")
}

// cell escapes characters that would end a cell of a table or begin HTML.
var cell = strings.NewReplacer("|", `\|`, "<", "&lt;")

// replaceNames replaces the names of constants in a text by their values. It does not replace "Prefix", which is mostly a word of the text, not the
// constant.
func replaceNames(text string, known map[string]string) string {
	words := strings.Split(text, " ")
	for i, word := range words {
		bare := strings.TrimRight(word, ".,:;")
		if value, is := known[bare]; is && bare != "Prefix" {
			words[i] = "`" + value + "`" + strings.TrimPrefix(word, bare)
		}
	}
	return strings.Join(words, " ")
}

// textOf returns the text of a constant expression; false if the expression is not a string, a constant of known, or a sum of
// these. go/types could evaluate more, but would have to load all imports of the package.
func textOf(expression ast.Expr, known map[string]string) (string, bool) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		text, is := known[e.Name]
		return text, is
	case *ast.BinaryExpr:
		left, isLeft := textOf(e.X, known)
		right, isRight := textOf(e.Y, known)
		return left + right, isLeft && isRight && e.Op == token.ADD
	}
	return "", false
}
