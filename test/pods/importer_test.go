package pods

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kilnvm/kiln/test/cluster"
	"github.com/kilnvm/kiln/test/node"
)

// importer is Containerized Data Importer (CDI) of module test/cdi, as its operator installs it: its own API server with the webhooks, its own controller, and
// the rights that it gives them.
type importer struct{ *tenant }

// imageOfImporter is the image of a program of CDI. CDI starts the program shell by the path of bash.
func imageOfImporter(program string) string { return "docker.io/library/" + program + ":1" }

// importerOptions is what the operator's default manifest says of CDI.
const importerOptions = `
apiVersion: cdi.kubevirt.io/v1beta1
kind: CDI
metadata: {name: cdi, annotations: {cdi.kubevirt.io/configAuthority: ""}}
spec: {config: {featureGates: [HonorWaitForFirstConsumer]}}
`

// startImporter installs CDI for the length of a test, and removes its objects from the cluster. Claims that CDI makes of StorageClass copies are block
// devices, and CDI chooses this class if a DataVolume names none. The storage must have been started.
func startImporter(t *testing.T) *importer {
	t.Helper()
	i := &importer{newTenant(t, "cdi")}
	dir := t.TempDir()
	runGo(t, "../cdi", "build", "-tags", "cdi", "-o", dir, "./objects", "./shell", "tool")
	for program, path := range map[string]string{"cdi-apiserver": "cdi-apiserver", "cdi-controller": "cdi-controller", "shell": "bin/bash"} {
		file := filepath.Join(dir, program+".tar")
		if err := node.WriteProgram(filepath.Join(dir, program), path, imageOfImporter(program), file); err != nil {
			t.Fatal(err)
		}
		importEverywhere(t, file)
	}
	i.install(dir)
	i.setStrategy("copies", "snapshot")
	i.kubectl("annotate", "storageclass", "copies", "storageclass.kubevirt.io/is-default-virt-class=true")
	return i
}

// install makes the objects of CDI, and waits for its programs.
func (i *importer) install(dir string) {
	i.Helper()
	objects, err := exec.CommandContext(i.Context(), filepath.Join(dir, "objects"), i.namespace,
		imageOfImporter("cdi-apiserver"), imageOfImporter("cdi-controller"), imageOfImporter("shell")).Output()
	if err != nil {
		i.Fatal(err)
	}
	file := filepath.Join(dir, "objects.json")
	if err := os.WriteFile(file, objects, 0o600); err != nil {
		i.Fatal(err)
	}
	i.Cleanup(func() {
		ctx := context.WithoutCancel(i.Context())
		if i.Failed() {
			for _, program := range []string{"cdi-apiserver", "cdi-deployment"} {
				logs, _ := shared.Kubectl(ctx, "--namespace", i.namespace, "logs", "--tail=100", "deployment/"+program)
				i.Log(logs)
			}
		}
		for _, args := range [][]string{{"delete", "cdi/cdi"}, {"delete", "-f", file}} {
			if out, err := shared.Kubectl(ctx, append(args, "--ignore-not-found", "--timeout=180s")...); err != nil {
				i.Error(err, out)
			}
		}
	})
	i.kubectl("create", "-f", file)
	if err := cluster.Established(i.Context(), shared.Kubeconfig()); err != nil {
		i.Fatal(err)
	}
	i.apply(importerOptions)
	// kubelet looks again for the key that the API server makes, after up to two minutes.
	i.kubectl("rollout", "status", "deployment/cdi-apiserver", "--timeout=300s")
	i.kubectl("rollout", "status", "deployment/cdi-deployment", "--timeout=600s")
}

// setStrategy sets how CDI clones claims of a StorageClass, as an administrator does: 'snapshot' or 'csi-clone'. The controller makes the profile of each class
// when it begins.
func (i *importer) setStrategy(class, strategy string) {
	i.Helper()
	i.eventually("CDI has a profile of StorageClass "+class, func() (string, bool) {
		out, err := shared.Kubectl(i.Context(), "patch", "storageprofile", class, "--type=merge", "-p",
			`{"spec": {"claimPropertySets": [{"accessModes": ["ReadWriteOnce"], "volumeMode": "Block"}], "cloneStrategy": "`+strategy+`"}}`)
		return out, err == nil
	})
	i.eventually("CDI clones by "+strategy, func() (string, bool) {
		out := i.kubectl("get", "storageprofile", class, "-o", "jsonpath={.status.cloneStrategy}")
		return out, out == strategy
	})
}
