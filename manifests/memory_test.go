package manifests_test

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestProcessesKnowTheirMemory: GOMEMLIMIT follows the memory limit of each container that has one, whatever that is changed to.
func TestProcessesKnowTheirMemory(t *testing.T) {
	if os.Getenv("KILN_TEST_LIMIT") != "" {
		t.Log("limit:", debug.SetMemoryLimit(-1)) // this is the process that is started below
		return
	}
	containers := 0
	for _, file := range manifestFiles(t) {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(raw), "containers:") {
			continue // patches are no objects
		}
		for _, object := range documents(t, string(raw)) {
			for _, container := range containersOf(t, object) {
				containers++
				for _, limit := range []string{"", "64Mi", "1536Mi", "2G"} {
					checkMemory(t, container, limit)
				}
			}
		}
	}
	if containers == 0 {
		t.Error("no containers were found")
	}
}

func manifestFiles(t *testing.T) (files []string) {
	t.Helper()
	for _, pattern := range []string{"*/*.yaml", "*/*/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	return files
}

func containersOf(t *testing.T, object *unstructured.Unstructured) []corev1.Container {
	t.Helper()
	spec := podOf(t, object)
	return append(spec.InitContainers, spec.Containers...)
}

// podOf is the pod of a Deployment or DaemonSet, and an empty one for other kinds.
func podOf(t *testing.T, object *unstructured.Unstructured) (spec corev1.PodSpec) {
	t.Helper()
	raw, found, err := unstructured.NestedMap(object.Object, "spec", "template", "spec")
	if err != nil || !found || object.GroupVersionKind().Group != "apps" {
		return spec
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

// checkMemory starts a Go process with the environment that kubelet makes for a container with this limit, or its own.
func checkMemory(t *testing.T, container corev1.Container, limit string) {
	t.Helper()
	memory := *container.Resources.Limits.Memory()
	if limit != "" {
		memory = apiresource.MustParse(limit)
	}
	if memory.IsZero() {
		t.Errorf("container '%s' has no limit of memory", container.Name)
		return
	}
	made := map[string]string{}
	for _, variable := range container.Env {
		value := variable.Value
		for name, before := range made {
			value = strings.ReplaceAll(value, "$("+name+")", before)
		}
		if from := variable.ValueFrom; from != nil && from.ResourceFieldRef != nil && from.ResourceFieldRef.Resource == "limits.memory" {
			value = strconv.FormatInt(int64(math.Ceil(float64(memory.Value())/float64(max(from.ResourceFieldRef.Divisor.Value(), 1)))), 10)
		}
		made[variable.Name] = value
	}
	child := exec.Command(os.Args[0], "-test.run=^TestProcessesKnowTheirMemory$", "-test.v")
	child.Env = append(os.Environ(), "KILN_TEST_LIMIT=told", "GOMEMLIMIT="+made["GOMEMLIMIT"])
	output, err := child.Output()
	_, after, found := strings.Cut(string(output), "limit: ")
	if err != nil || !found {
		t.Fatalf("container '%s' with GOMEMLIMIT '%s': %v %s", container.Name, made["GOMEMLIMIT"], err, output)
	}
	number, _, _ := strings.Cut(after, "\n")
	of, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if share := float64(of) / float64(memory.Value()); share < 0.9 || share > 0.97 {
		t.Errorf("container '%s' with %s: Go uses up to %.3f of it, want some 95 %%", container.Name, memory.String(), share)
	}
}
