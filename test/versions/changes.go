package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// facts are what a version of KubeVirt has, each with its description.
type facts struct{ fields, gates, keys map[string]string }

// printChanges prints what a version has that the newest does not have, and the other way round: '-' is the newest's, '+' the version's.
func printChanges(ctx context.Context, out io.Writer, r recorder, answers map[string]answer) error {
	reference, err := build(ctx, newest)
	if err != nil {
		return err
	}
	before, err := reference.facts(ctx)
	if err != nil {
		return err
	}
	after, err := r.facts(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n'-' is of %s only, '+' is of %s only.\n", newest, r.version)
	for _, part := range []struct {
		title         string
		before, after map[string]string
	}{
		{"Fields", changedFields(before.fields, after.fields), changedFields(after.fields, before.fields)},
		{"Feature gates", before.gates, after.gates}, {"Labels, annotations and finalizers", before.keys, after.keys},
	} {
		printDifferences(out, part.title, part.before, part.after)
	}
	known, err := readAnswers(filepath.Join(kept, newest+".jsonl.gz"))
	if err != nil {
		return err
	}
	return printAnswers(out, known, answers)
}

// guestPaths are the beginnings of paths that several kinds share.
var guestPaths = strings.NewReplacer("VirtualMachine.spec.template.spec.", "VMI spec.", "VirtualMachineInstance.spec.", "VMI spec.",
	"VirtualMachineInstancePreset.spec.", "VMI spec.", "VirtualMachine.status.", "VM or VMI status.", "VirtualMachineInstance.status.", "VM or VMI status.")

// changedFields returns the fields of a version that another version lacks or describes otherwise. Fields below a field that the other version lacks are
// counted with it, and fields that several kinds share are one.
func changedFields(fields, other map[string]string) map[string]string {
	changed, below := map[string]string{}, map[string]map[string]bool{}
	for _, path := range sortedKeys(fields) {
		if fields[path] == other[path] {
			continue
		}
		top := path
		for end := range path { // the first part that the other version lacks
			if path[end] != '.' && path[end] != '[' {
				continue
			}
			if _, has := other[path[:end]]; !has {
				top = path[:end]
				break
			}
		}
		shared := guestPaths.Replace(top)
		if changed[shared] = fields[top]; top != path {
			if below[shared] == nil {
				below[shared] = map[string]bool{}
			}
			below[shared][guestPaths.Replace(path)] = true
		}
	}
	for path, fields := range below {
		changed[path] += fmt.Sprintf(", %d below", len(fields))
	}
	return changed
}

func printDifferences(out io.Writer, title string, before, after map[string]string) {
	fmt.Fprintf(out, "\n%s\n", title)
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, name := range sortedKeys(all) {
		was, is := before[name], after[name]
		if was == is {
			continue
		}
		if was != "" {
			fmt.Fprintf(out, "  - %s: %s\n", name, was)
		}
		if is != "" {
			fmt.Fprintf(out, "  + %s: %s\n", name, is)
		}
	}
}

// facts returns what this version has.
func (r recorder) facts(ctx context.Context) (f facts, err error) {
	raw, err := exec.CommandContext(ctx, r.program, "-definitions").Output()
	if err != nil {
		return f, err
	}
	var definitions []apiextensionsv1.CustomResourceDefinition
	if err := json.Unmarshal(raw, &definitions); err != nil {
		return f, err
	}
	f.fields = map[string]string{}
	for _, definition := range definitions {
		for _, version := range definition.Spec.Versions {
			if version.Storage || version.Name == "v1" {
				addFields(f.fields, definition.Spec.Names.Kind, version.Schema.OpenAPIV3Schema)
			}
		}
	}
	sources, err := r.folderOf(ctx, r.module, "kubevirt.io/kubevirt")
	if err != nil {
		return f, err
	}
	if f.gates, err = gatesIn(filepath.Join(sources, "pkg", "virt-config", "featuregate")); err != nil {
		return f, err
	}
	api, err := r.folderOf(ctx, r.module, "kubevirt.io/api")
	if err != nil {
		return f, err
	}
	constants, err := constantsIn(api)
	f.keys = map[string]string{}
	for name, text := range constants {
		if key.MatchString(text) {
			f.keys[text] = name
		}
	}
	return f, err
}

// key is what labels, annotations and finalizers of KubeVirt look like.
var key = regexp.MustCompile(`kubevirt\.io/.`)

// addFields adds the fields of a schema by their paths.
func addFields(fields map[string]string, path string, schema *apiextensionsv1.JSONSchemaProps) {
	describe := cmp.Or(schema.Type, "any")
	if len(schema.Enum) > 0 {
		var values []string
		for _, value := range schema.Enum {
			values = append(values, string(value.Raw))
		}
		describe += " of " + strings.Join(values, ", ")
	}
	if schema.Default != nil {
		describe += ", default " + string(schema.Default.Raw)
	}
	if len(schema.Required) > 0 {
		describe += ", requires " + strings.Join(schema.Required, ", ")
	}
	for _, rule := range schema.XValidations {
		describe += ", rule " + rule.Rule
	}
	fields[path] = describe
	for name := range schema.Properties {
		child := schema.Properties[name]
		addFields(fields, path+"."+name, &child)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		addFields(fields, path+"[]", schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		addFields(fields, path+"[key]", schema.AdditionalProperties.Schema)
	}
}

// constantsIn returns the texts of the constants in the Go files of a folder and the folders below, by name.
func constantsIn(dir string) (map[string]string, error) {
	found := map[string]string{}
	return found, eachFile(dir, func(file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, is := n.(*ast.ValueSpec)
			if !is {
				return true
			}
			for i, name := range spec.Names {
				if i >= len(spec.Values) {
					break
				}
				if text, is := spec.Values[i].(*ast.BasicLit); is && text.Kind == token.STRING {
					found[name.Name], _ = strconv.Unquote(text.Value)
				}
			}
			return true
		})
	})
}

// gatesIn returns the stages of the gates that package featuregate registers.
func gatesIn(dir string) (map[string]string, error) {
	names, err := constantsIn(dir)
	if err != nil {
		return nil, err
	}
	gates := map[string]string{}
	err = eachFile(dir, func(file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			literal, is := n.(*ast.CompositeLit)
			if kind, named := literalType(literal); !is || !named || kind != "FeatureGate" {
				return true
			}
			fields := map[string]string{}
			for _, element := range literal.Elts {
				pair, is := element.(*ast.KeyValueExpr)
				if !is {
					continue
				}
				name, _ := pair.Key.(*ast.Ident)
				if value, is := pair.Value.(*ast.Ident); is && name != nil {
					fields[name.Name] = value.Name
				}
			}
			if gate := names[fields["Name"]]; gate != "" {
				gates[gate] = fields["State"]
			}
			return true
		})
	})
	return gates, err
}

func literalType(literal *ast.CompositeLit) (string, bool) {
	if literal == nil {
		return "", false
	}
	name, is := literal.Type.(*ast.Ident)
	if !is {
		return "", false
	}
	return name.Name, true
}

// eachFile visits the Go files of a folder and the folders below, except tests.
func eachFile(dir string, visit func(*ast.File)) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			visit(file)
		}
		return err
	})
}

// expectation is the part of an answer that is compared.
type expectation struct {
	Allowed bool
	Panic   string
	Message string
	Causes  []struct{ Field, Message string }
	Object  any
}

// reasons are the texts of a refusal, without what differs from case to case.
func (e expectation) reasons() map[string]bool {
	found := map[string]bool{}
	for _, cause := range e.Causes {
		found[variable.ReplaceAllString(cause.Field+": "+cause.Message, "#")] = true
	}
	if text := cmp.Or(e.Message, e.Panic); text != "" && len(e.Causes) == 0 {
		found[variable.ReplaceAllString(text, "#")] = true
	}
	return found
}

var variable = regexp.MustCompile(`\[\d+\]|\d+|"[^"]*"|'[^']*'`)

// printAnswers prints how many cases are answered differently, and which reasons and defaults only one version has.
func printAnswers(out io.Writer, before, after map[string]answer) error {
	refused, admitted, pruned := 0, 0, 0
	counts := map[string]int{}
	for _, id := range sortedKeys(after) {
		var was, is expectation
		if err := json.Unmarshal(before[id].Expect, &was); err != nil {
			return fmt.Errorf("case %s of %s: %w", id, newest, err)
		}
		if err := json.Unmarshal(after[id].Expect, &is); err != nil {
			return fmt.Errorf("case %s: %w", id, err)
		}
		switch {
		case len(after[id].Pruned) > 0:
			pruned++
			continue // another object was judged
		case was.Allowed && !is.Allowed:
			refused++
		case !was.Allowed && is.Allowed:
			admitted++
		}
		for reason := range was.reasons() {
			if !is.reasons()[reason] {
				counts["- "+reason]++
			}
		}
		for reason := range is.reasons() {
			if !was.reasons()[reason] {
				counts["+ "+reason]++
			}
		}
		if was.Allowed && is.Allowed {
			countLeaves(counts, "", was.Object, is.Object)
		}
	}
	fmt.Fprintf(out, "\nAnswers to %d cases: %d are refused that %s admits, %d are admitted that it refuses; %d have fields that the version does not know\n",
		len(after), refused, newest, admitted, pruned)
	lines := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	for _, line := range lines {
		fmt.Fprintf(out, "  %5d %.200s\n", counts[line], line)
	}
	return nil
}

// countLeaves counts the leaves of mutated objects that only one version has.
func countLeaves(counts map[string]int, path string, was, is any) {
	a, isObject := was.(map[string]any)
	b, alsoObject := is.(map[string]any)
	if isObject || alsoObject {
		all := maps.Clone(a)
		if all == nil {
			all = map[string]any{}
		}
		maps.Copy(all, b)
		for name := range all {
			countLeaves(counts, path+"."+name, a[name], b[name])
		}
		return
	}
	if list, isList := was.([]any); isList {
		if other, alsoList := is.([]any); alsoList && len(list) == len(other) {
			for i := range list {
				countLeaves(counts, path+"[]", list[i], other[i])
			}
			return
		}
	}
	before, after := fmt.Sprint(was), fmt.Sprint(is)
	if before == after {
		return
	}
	if was != nil {
		counts["- default "+path+": "+before]++
	}
	if is != nil {
		counts["+ default "+path+": "+after]++
	}
}

func sortedKeys[V any](all map[string]V) []string { return slices.Sorted(maps.Keys(all)) }
