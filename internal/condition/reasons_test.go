package condition

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// reason matches the form that the API server requires of reasons in events and conditions.
var reason = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)

// noReasons are strings of this form in packages that write events, with their meaning.
var noReasons = map[string]string{
	"Reconcile":                   "the action of events",
	"DataVolume":                  "a kind",
	"GuestHardware":               "a kind",
	"HostProfile":                 "a kind",
	"Namespace":                   "a kind",
	"NetworkAttachmentDefinition": "a kind",
	"PersistentVolumeClaim":       "a kind",
	"Other":                       "a label of a metric",
	"Forgiven":                    "a label of a metric", "Excepted": "a label of a metric", "Failed": "a label of a metric",
	"Pod":                    "a kind",
	"Role":                   "a kind",
	"RoleBinding":            "a kind",
	"VirtualMachineSnapshot": "a kind", "VirtualMachineSnapshotContent": "a kind",
	"VolumeSnapshot": "a kind", "VolumeSnapshotClassList": "a kind",
	// Reasons of pods, which have another one on VMIs.
	"NodeShutdown": "kubelet's word", "Terminated": "kubelet's word", "Shutdown": "kubelet's word", "NodeAffinity": "kubelet's word",
	"UnexpectedAdmissionError": "kubelet's word", "TopologyAffinityError": "kubelet's word", "RunContainerError": "kubelet's word",
	"FailedMount": "kubelet's word", "FailedMapVolume": "kubelet's word", "FailedCreatePodSandBox": "kubelet's word",
	"FailedAttachVolume": "a word of the controller that attaches volumes",
	"DeletionByPodGC":    "a word of the pod garbage collector", "EvictionByEvictionAPI": "a word of the API server",
	"DeletionByTaintManager": "a word of the controller of taints", "OutOf": "how such words of kubelet begin",
}

// TestReasonsAreConstants: docs/reference/keys.md lists the reasons of events. So each reason is a constant of api/v1alpha1 or of kubevirt.io: a package that
// writes events or the conditions of a VMI's end has no string literal of the form of a reason.
func TestReasonsAreConstants(t *testing.T) {
	writers := map[string][]*ast.File{}
	writes := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		writers[dir] = append(writers[dir], file)
		ast.Inspect(file, func(n ast.Node) bool {
			if call, is := n.(*ast.SelectorExpr); is && (call.Sel.Name == "Eventf" || call.Sel.Name == "SetEnd") {
				writes[dir] = true
			}
			return true
		})
		return nil
	})
	if err != nil || len(writes) < 2 {
		t.Fatalf("%d packages write events, %v: the test looks at the wrong tree", len(writes), err)
	}
	for dir := range writes {
		for _, file := range writers[dir] {
			for _, text := range stringLiterals(file) {
				if reason.MatchString(text) && noReasons[text] == "" {
					t.Errorf("%s: '%s' has the form of a reason: make it a constant of api/v1alpha1/conditions.go", dir, text)
				}
			}
		}
	}
}

// stringLiterals returns the string literals of a file except imports and tags.
func stringLiterals(file *ast.File) (all []string) {
	var tags []*ast.BasicLit
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			tags = append(tags, n.Tag)
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && !slices.Contains(tags, n) {
				all = append(all, text)
			}
		}
		return true
	})
	return all
}
