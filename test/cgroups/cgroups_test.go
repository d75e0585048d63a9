package cgroups

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// machines are the mounts of machines, and their files, at ROOT.
var machines = map[string]struct {
	mounts  string
	files   map[string]string
	unified bool
	// memory and cpuset are the hierarchies with these controllers.
	memory, cpuset string
	hierarchies    int
}{
	"version 1": {
		mounts: "tmpfs ROOT tmpfs rw 0 0\ncgroup ROOT/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\ncgroup ROOT/memory cgroup rw,relatime,memory 0 0\n" +
			"cgroup ROOT/cpuset cgroup rw,cpuset 0 0\ncgroup2 ROOT/unified cgroup2 rw,relatime 0 0\n",
		files:  map[string]string{"unified/cgroup.controllers": "", "memory/n/kubepods/burstable/podb/c/memory.stat": ""},
		memory: "memory", cpuset: "cpuset", hierarchies: 3,
	},
	"version 2": {
		mounts:  "cgroup2 ROOT cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate 0 0\n",
		files:   map[string]string{"cgroup.controllers": "cpuset cpu io memory pids\n", "n/kubepods/burstable/podb/c/memory.stat": ""},
		unified: true, memory: ".", cpuset: ".", hierarchies: 1,
	},
}

// makeMachine writes the files of a machine, and reads its mounts.
func makeMachine(t *testing.T, name string) (m Machine, at string) {
	t.Helper()
	at = t.TempDir()
	for file, text := range machines[name].files {
		path := filepath.Join(at, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	m, err := parse(strings.ReplaceAll(machines[name].mounts, "ROOT", at), at)
	if err != nil {
		t.Fatal(err)
	}
	return m, at
}

// TestHierarchies: controllers are found where the version of the machine has them, and what the machine does not have is an error.
func TestHierarchies(t *testing.T) {
	for name, want := range machines {
		m, at := makeMachine(t, name)
		if m.Unified != want.unified {
			t.Errorf("%s: unified is %v", name, m.Unified)
		}
		for controller, folder := range map[string]string{"memory": want.memory, "cpuset": want.cpuset} {
			if got, err := m.Root(controller); err != nil || got != filepath.Join(at, folder) {
				t.Errorf("%s: %s is at '%s', %v", name, controller, got, err)
			}
		}
		if _, err := m.Root("rdma"); err == nil {
			t.Errorf("%s has a controller that it does not have", name)
		}
		folders, all, err := m.Folders("n")
		if err != nil || all != want.hierarchies || len(folders) != 1 || folders[0] != filepath.Join(at, want.memory, "n") {
			t.Errorf("%s: the cgroup is at %v of %d hierarchies, %v", name, folders, all, err)
		}
		if folders, _, err := m.Folders("other"); err != nil || len(folders) != 0 {
			t.Errorf("%s: a cgroup that does not exist is at %v, %v", name, folders, err)
		}
	}
	for name, mounts := range map[string]string{
		"no cgroups": "tmpfs / tmpfs rw 0 0\n", "read-only": "cgroup /a cgroup ro,memory 0 0\ncgroup2 /b cgroup2 ro 0 0\n",
		"another place": "cgroup2 /c cgroup2 rw 0 0\n",
	} {
		if m, err := parse(mounts, "/b"); err == nil {
			t.Errorf("%s: got %+v, want an error", name, m)
		}
	}
}

// TestPods: pods of each class are found by their UIDs, and their containers. A pod, a class and a node that are not there are errors.
func TestPods(t *testing.T) {
	for name, want := range machines {
		m, at := makeMachine(t, name)
		all := filepath.Join(at, want.memory, "n", "kubepods")
		if pods, err := m.Pods("memory", "n"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: without the class 'besteffort': %v, %v", name, pods, err)
		}
		for _, folder := range []string{"besteffort/podc", "poda/one", "poda/two", "other"} {
			if err := os.MkdirAll(filepath.Join(all, folder), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		pods, err := m.Pods("memory", "n")
		if err != nil || len(pods) != 3 {
			t.Errorf("%s: the pods are %v, %v", name, pods, err)
		}
		for uid, folder := range map[string]string{"a": "poda", "b": "burstable/podb", "c": "besteffort/podc"} {
			if got, err := m.Pod("memory", "n", uid); err != nil || got != filepath.Join(all, folder) {
				t.Errorf("%s: pod %s is at '%s', %v", name, uid, got, err)
			}
		}
		if containers, err := Containers(pods["a"]); err != nil || len(containers) != 2 || filepath.Base(containers[1]) != "two" {
			t.Errorf("%s: the containers are %v, %v", name, containers, err)
		}
		if got, err := m.Pod("memory", "n", "d"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a pod that is not there is at '%s', %v", name, got, err)
		}
		if got, err := m.Pods("memory", "m"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a node that is not there has the pods %v, %v", name, got, err)
		}
		if got, err := Containers(filepath.Join(all, "podd")); err == nil {
			t.Errorf("%s: a pod that is not there has the containers %v", name, got)
		}
	}
}

// TestMemory: pages of files are left out, and a figure that the kernel does not give is an error.
func TestMemory(t *testing.T) {
	for name, c := range map[string]struct {
		stat, kernel string
		want         int64
	}{
		"version 1":              {"rss 1\nshmem 1\nfile 5\ntotal_rss 100\ntotal_shmem 20\n", "3\n", 123},
		"version 1, no kernel":   {"total_rss 100\ntotal_shmem 20\n", "", 0},
		"version 2":              {"anon 100\nfile 500\nkernel 3\nshmem 20\n", "", 123},
		"version 2, before 5.18": {"anon 100\nfile 500\nkernel_stack 3\nshmem 20\n", "", 0},
		"no file":                {"", "", 0},
	} {
		folder := t.TempDir()
		for file, text := range map[string]string{"memory.stat": c.stat, "memory.kmem.usage_in_bytes": c.kernel} {
			if text == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := Memory(folder); got != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%s: %d, %v; want %d", name, got, err, c.want)
		}
	}
}
