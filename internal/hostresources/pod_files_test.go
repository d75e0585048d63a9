package hostresources

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	disk "github.com/diskfs/go-diskfs/backend/file"
	diskfs "github.com/diskfs/go-diskfs/filesystem/iso9660"
	"github.com/google/go-cmp/cmp"
	"github.com/kdomanski/iso9660"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// TestPodFiles: volumes of files become images. Their files have the names of the keys, and nothing of the way in which kubelet stores them.
func TestPodFiles(t *testing.T) {
	files := map[string]string{
		"/volumes/data/..2026/DATABASE_URL": "secret", "/volumes/data/..2026/a.b.c.properties": "", "/volumes/data/..2026/labels/app": "web",
		"/volumes/data/..data->": "..2026", "/volumes/data/DATABASE_URL->": "..data/DATABASE_URL",
		"/volumes/data/a.b.c.properties->": "..data/a.b.c.properties", "/volumes/data/labels->": "..data/labels",
	}
	for label, source := range map[string]v1.VolumeSource{
		"cfgdata":  {Secret: &v1.SecretVolumeSource{SecretName: "x"}},
		"mine":     {ConfigMap: &v1.ConfigMapVolumeSource{VolumeLabel: "mine"}},
		"unattend": {Sysprep: &v1.SysprepSource{}},
	} {
		p := mounted(t, files)
		bound, errs := p.Bind(t.Context(), having(source))
		refused(t, label, "", errs.ToAggregate())
		got := named(t, bound.Volumes["data"].Path, label)
		if diff := cmp.Diff(map[string]string{"DATABASE_URL": "secret", "a.b.c.properties": "", "labels/app": "web"}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", label, diff)
		}
	}
	large := mounted(t, map[string]string{"/volumes/data/a": strings.Repeat("a", maxFileBytes), "/volumes/data/b": "b"})
	_, errs := large.Bind(t.Context(), having(v1.VolumeSource{Secret: &v1.SecretVolumeSource{}}))
	refused(t, "too much", "has more than", errs.ToAggregate())
	out := mounted(t, map[string]string{"/volumes/data/a->": "/etc/passwd"})
	_, errs = out.Bind(t.Context(), having(v1.VolumeSource{Secret: &v1.SecretVolumeSource{}}))
	refused(t, "a link out", "cannot be served", errs.ToAggregate())
}

// named reads an image with names of Rock Ridge.
func named(t *testing.T, file, label string) map[string]string {
	t.Helper()
	raw, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	image, err := diskfs.Read(disk.New(raw, true), 0, 0, 2048)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimRight(image.Label(), "\x00 "); got != label {
		t.Errorf("the label is '%s', want '%s'", got, label)
	}
	all := map[string]string{}
	err = fs.WalkDir(image, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(image, name)
		all[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// contents reads an image.
func contents(t *testing.T, file, label string) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	image, err := iso9660.OpenImage(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := image.Label(); err != nil || strings.TrimRight(got, "\x00 ") != label {
		t.Errorf("the label is '%s' (%v), want '%s'", got, err, label)
	}
	root, err := image.RootDir()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	read(t, root, "", all)
	return all
}

func read(t *testing.T, dir *iso9660.File, at string, all map[string]string) {
	t.Helper()
	children, err := dir.GetChildren()
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range children {
		if child.IsDir() {
			read(t, child, path.Join(at, child.Name()), all)
			continue
		}
		content, err := io.ReadAll(child.Reader())
		if err != nil {
			t.Fatal(err)
		}
		all[path.Join(at, child.Name())] = string(content)
	}
}

// TestPodCloudInit: data of Secrets takes the place of data in the VMI, for both data sources.
func TestPodCloudInit(t *testing.T) {
	secret := &corev1.LocalObjectReference{Name: "s"}
	for _, c := range []struct {
		why    string
		source v1.VolumeSource
		files  map[string]string
		label  string
		want   map[string]string
	}{
		{"the VMI", v1.VolumeSource{CloudInitNoCloud: &v1.CloudInitNoCloudSource{UserData: "u", NetworkData: "n"}}, nil, "cidata",
			map[string]string{"user-data": "u", "network-config": "n"}},
		{"a Secret of user data", v1.VolumeSource{CloudInitNoCloud: &v1.CloudInitNoCloudSource{UserDataSecretRef: secret}},
			map[string]string{"/secrets/data/userdata/userData": "U"}, "cidata", map[string]string{"user-data": "U"}},
		{"a Secret of both", v1.VolumeSource{CloudInitNoCloud: &v1.CloudInitNoCloudSource{UserDataSecretRef: secret}},
			map[string]string{"/secrets/data/userdata/userdata": "U", "/secrets/data/userdata/networkdata": "N"}, "cidata",
			map[string]string{"user-data": "U", "network-config": "N"}},
		{"Secrets of a config drive", v1.VolumeSource{CloudInitConfigDrive: &v1.CloudInitConfigDriveSource{UserData: "u", NetworkDataSecretRef: secret}},
			map[string]string{"/secrets/data/networkdata/networkData": "N"}, "config-2",
			map[string]string{"openstack/latest/user_data": "u", "openstack/latest/network_data.json": "N"}},
	} {
		t.Run(c.why, func(t *testing.T) {
			bound, errs := mounted(t, c.files).Bind(t.Context(), having(c.source))
			refused(t, c.why, "", errs.ToAggregate())
			got := contents(t, bound.Volumes["data"].Path, c.label)
			for _, name := range []string{"meta-data", "openstack/latest/meta_data.json"} {
				if text, there := got[name]; there && (!strings.Contains(text, "web.one.shop") || !strings.Contains(text, `web`)) {
					t.Errorf("%s is %s", name, text)
				}
				delete(got, name)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	missing := having(v1.VolumeSource{CloudInitNoCloud: &v1.CloudInitNoCloudSource{UserDataSecretRef: secret}})
	_, errs := mounted(t, nil).Bind(t.Context(), missing)
	refused(t, "a Secret that is not mounted", "secretRef: the Secret is not mounted", errs.ToAggregate())
}
