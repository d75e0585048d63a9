package guestmetrics

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// kubevirts is a metric in KubeVirt's source.
type kubevirts struct {
	kind   string
	labels []string
}

// ofDomains are the labels that KubeVirt's collector of domain statistics adds to metrics by maps, which parsing does not find: vcpu_metrics.go,
// network_metrics.go and block_metrics.go. The labels of all metrics are in domainstats.go. KubeVirt also has labels of VMIs (kubernetes_vmi_label_*). Kiln
// does not, because a tenant would choose the names of the labels.
var ofDomains = map[string][]string{
	"kubevirt_vmi_vcpu_seconds_total": {"id", "state"}, "kubevirt_vmi_vcpu_": {"id"}, "kubevirt_vmi_network_traffic_": {"interface", "type"},
	"kubevirt_vmi_network_": {"interface"}, "kubevirt_vmi_storage_": {"drive"}, "kubevirt_vmi_memory_": nil, "kubevirt_vmi_cpu_": nil,
}

// TestKubeVirtsNames: each metric exists in KubeVirt with this type and these labels, in the version that test/kubevirt has.
func TestKubeVirtsNames(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "kubevirt.io/kubevirt")
	command.Dir = "../../test/kubevirt"
	out, err := command.Output()
	module := struct{ Dir, Version string }{}
	if json.Unmarshal(out, &module) != nil || module.Dir == "" {
		t.Fatalf("%v: %s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(module.Dir, "pkg/monitoring/metrics/*/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join(module.Dir, "pkg/monitoring/metrics/*/*/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]kubevirts{}
	for _, file := range append(files, more...) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		declared(parsed, known)
	}
	controller, apiserver := Facts()
	for _, fact := range append(controller, apiserver...) {
		theirs, has := known[fact.Name]
		want := theirs.labels
		if len(want) == 0 {
			want = append([]string{"node", "namespace", "name"}, labelsOfDomains(fact.Name)...)
		}
		if !has || theirs.kind != fact.Type || !slices.Equal(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(fact.Labels))) {
			t.Errorf("%s is a %s with labels %v; KubeVirt %s has (%t) a %s with %v", fact.Name, fact.Type, fact.Labels, module.Version, has, theirs.kind, want)
		}
	}
}

// labelsOfDomains returns the labels of the longest prefix.
func labelsOfDomains(name string) (labels []string) {
	longest := ""
	for prefix, of := range ofDomains {
		if strings.HasPrefix(name, prefix) && len(prefix) > len(longest) {
			longest, labels = prefix, of
		}
	}
	return labels
}

// declared finds calls such as NewGaugeVec(MetricOpts{Name: "..."}, []string{...}) of a file.
func declared(file *ast.File, into map[string]kubevirts) {
	lists := map[string][]string{} // variables that are lists of texts
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, is := n.(*ast.ValueSpec); is && len(spec.Values) == 1 {
			lists[spec.Names[0].Name] = texts(spec.Values[0], nil)
		}
		return true
	})
	ast.Inspect(file, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is || len(call.Args) == 0 {
			return true
		}
		function, is := call.Fun.(*ast.SelectorExpr)
		if !is {
			return true
		}
		kind, isMetric := strings.CutPrefix(strings.TrimSuffix(function.Sel.Name, "Vec"), "New")
		options, is := call.Args[0].(*ast.CompositeLit)
		if !isMetric || !is {
			return true
		}
		for _, element := range options.Elts {
			if pair, is := element.(*ast.KeyValueExpr); is && pair.Key.(*ast.Ident).Name == "Name" {
				if literal, is := pair.Value.(*ast.BasicLit); is {
					into[strings.Trim(literal.Value, `"`)] = kubevirts{strings.ToLower(kind), texts(call.Args[len(call.Args)-1], lists)}
				}
			}
		}
		return true
	})
}

// texts returns the texts of a list, which may be a variable.
func texts(of ast.Expr, lists map[string][]string) (all []string) {
	if name, is := of.(*ast.Ident); is {
		return lists[name.Name]
	}
	list, is := of.(*ast.CompositeLit)
	if !is {
		return nil
	}
	for _, element := range list.Elts {
		if literal, is := element.(*ast.BasicLit); is {
			all = append(all, strings.Trim(literal.Value, `"`))
		}
	}
	return all
}
