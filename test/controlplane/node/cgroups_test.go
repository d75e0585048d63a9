package node

import (
	"os"
	"path/filepath"
	"testing"
)

// TestDelegateControllers: what the hierarchy has and its cgroups have not is given to them, and nothing is written otherwise.
func TestDelegateControllers(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"version 2, nothing given":  {map[string]string{"cgroup.controllers": "cpuset cpu memory\n", "cgroup.subtree_control": "\n"}, "+cpuset +cpu +memory"},
		"version 2, as systemd has": {map[string]string{"cgroup.controllers": "cpuset cpu memory\n", "cgroup.subtree_control": "cpu memory\n"}, "+cpuset"},
		"version 2, all given":      {map[string]string{"cgroup.controllers": "cpu memory\n", "cgroup.subtree_control": "cpu memory\n"}, "cpu memory\n"},
		"version 2 beside 1":        {map[string]string{"cgroup.controllers": "", "cgroup.subtree_control": ""}, ""},
		"version 1":                 {map[string]string{}, ""},
	} {
		point := t.TempDir()
		for file, text := range c.files {
			if err := os.WriteFile(filepath.Join(point, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := delegateControllers(point); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, _ := os.ReadFile(filepath.Join(point, "cgroup.subtree_control")); string(got) != c.want {
			t.Errorf("%s: the cgroups below have '%s', want '%s'", name, got, c.want)
		}
		if entries, err := os.ReadDir(point); err != nil || len(entries) != len(c.files) {
			t.Errorf("%s: the files are %v, %v", name, entries, err)
		}
	}
}
