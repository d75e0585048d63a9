package manifest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// backup writes an archive with files.
func backup(t *testing.T, files map[string]string, links ...string) string {
	t.Helper()
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	for name, content := range files {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range links {
		if err := archive.WriteHeader(&tar.Header{Name: name, Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink}); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "backup.tar.gz")
	if err := os.WriteFile(path, packed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestVeleroArchive: the objects of a backup are read once, whatever the names of its files are, and Secrets, links and other files are left out.
func TestVeleroArchive(t *testing.T) {
	t.Parallel()
	const machine = `{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "web", "namespace": "shop"}, "spec": {}}`
	const shop = `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}`
	const secret = `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "shop"}}`
	path := backup(t, map[string]string{
		"metadata/version": "1.1.0",
		"resources/virtualmachines.kubevirt.io/namespaces/shop/web.json":                     machine,
		"resources/virtualmachines.kubevirt.io/v1-preferredversion/namespaces/shop/web.json": machine,
		"resources/namespaces/cluster/shop.json":                                             shop,
		"resources/secrets/namespaces/shop/key.json":                                         secret,
		"resources/virtualmachines.kubevirt.io/namespaces/shop/broken.json":                  `{"kind": `,
		"resources/virtualmachines.kubevirt.io/namespaces/shop/large.json":                   strings.Repeat(" ", MaxObjectBytes+1),
		"resources/virtualmachines.kubevirt.io/namespaces/../../../escape.json":              machine,
	}, "resources/virtualmachines.kubevirt.io/namespaces/shop/link.json")
	dump, err := Files{Names: []string{path}}.ReadDump()
	if err != nil {
		t.Fatal(err)
	}
	guests := dump.NextGuests(10)
	const file = "backup.tar.gz:resources/virtualmachines.kubevirt.io/namespaces/shop/web.json"
	if len(guests) != 1 || guests[0].GetName() != "web" || !strings.HasSuffix(guests[0].File(), file) {
		t.Errorf("%d VMs: %+v", len(guests), guests)
	}
	var namespace corev1.Namespace
	if err := dump.Reader.Get(t.Context(), client.ObjectKey{Name: "shop"}, &namespace); err != nil {
		t.Error(err)
	}
	faults := 0
	for _, one := range dump.Named {
		if one.Fault != nil {
			faults++
		}
		if one.GetKind() == "Secret" {
			t.Error("a Secret is read")
		}
	}
	if faults != 2 {
		t.Errorf("%d files cannot be read, want the broken and the large one: %+v", faults, dump.Named)
	}
	for why, path := range map[string]string{
		"another archive": backup(t, map[string]string{"etc/passwd": "root"}), "no archive": filepath.Join(t.TempDir(), "missing.tar.gz"),
	} {
		if why == "no archive" {
			if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		dump, err := Files{Names: []string{path}}.ReadDump()
		if err != nil || len(dump.Named) != 1 || dump.Named[0].Fault == nil || !strings.Contains(dump.Named[0].Fault.Error(), path) {
			t.Errorf("%s: %v %+v", why, err, dump.Named)
		}
	}
}
