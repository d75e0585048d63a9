package hostresources

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// withCredentials adds accessCredentials, as YAML.
func withCredentials(t *testing.T, vmi *v1.VirtualMachineInstance, text string) *v1.VirtualMachineInstance {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), &vmi.Spec.AccessCredentials); err != nil {
		t.Fatal(err)
	}
	return vmi
}

const someCredentials = `
- sshPublicKey: {source: {secret: {secretName: first}}, propagationMethod: {noCloud: {}}}
- sshPublicKey: {source: {secret: {secretName: second}}, propagationMethod: {configDrive: {}}}
- sshPublicKey: {source: {secret: {secretName: first}}, propagationMethod: {qemuGuestAgent: {users: [a, b]}}}
- sshPublicKey: {source: {secret: {secretName: second}}, propagationMethod: {qemuGuestAgent: {users: [b]}}}
- userPassword: {source: {secret: {secretName: passwords}}, propagationMethod: {qemuGuestAgent: {}}}
- userPassword: {source: {secret: {secretName: others}}, propagationMethod: {qemuGuestAgent: {}}}
`

var someSecrets = map[string]string{
	"/credentials/0/..data/z": "key 1\r\n\n  # no key\n", "/credentials/0/z->": "..data/z", "/credentials/0/a": "key 0",
	"/credentials/1/a": "key 2 \"quoted\"\\\nkey 3",
	"/credentials/2/a": " secret\n", "/credentials/2/b": "old", "/credentials/2/c": "\n",
	"/credentials/3/b": "new",
}

// TestCredentials: which keys and passwords the agent gives to whom.
func TestCredentials(t *testing.T) {
	vmi := withCredentials(t, having(v1.VolumeSource{}), someCredentials)
	got, err := mounted(t, someSecrets).Credentials(vmi)
	if err != nil {
		t.Fatal(err)
	}
	want := Credentials{
		Keys:      map[string][]string{"a": {"key 0", "key 1"}, "b": {"key 0", "key 1", `key 2 "quoted"\`, "key 3"}},
		Passwords: map[string]string{"a": "secret", "b": "new"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	empty := maps.Clone(someSecrets)
	empty["/credentials/0/..data/z"], empty["/credentials/0/a"] = "", ""
	if got, err := mounted(t, empty).Credentials(vmi); err != nil || got.Keys["a"] != nil || len(got.Keys) != 2 {
		t.Errorf("the user of a Secret without keys has %#v of %v (%v): want an empty list, so that old keys go", got.Keys["a"], got.Keys, err)
	}
	if _, err := mounted(t, nil).Credentials(vmi); err == nil || !strings.HasPrefix(err.Error(), "Secret 'first' of accessCredentials is not mounted") {
		t.Errorf("a Secret that is not mounted: %v", err)
	}
	escaping := mounted(t, map[string]string{"/credentials/0/z->": "/etc/passwd", "/credentials/1/a": "k", "/credentials/2/a": "k", "/credentials/3/a": "k"})
	if got, err := escaping.Credentials(vmi); err == nil {
		t.Errorf("a link out of the Secret gives %v", got)
	}
}

// TestTooManyCredentials: neither a Secret for thousands of users nor many large Secrets fill the memory of the launcher.
func TestTooManyCredentials(t *testing.T) {
	users := strings.Repeat("a, ", 1000)
	vmi := withCredentials(t, having(v1.VolumeSource{}),
		"[{sshPublicKey: {source: {secret: {secretName: k}}, propagationMethod: {qemuGuestAgent: {users: ["+users+"]}}}}]")
	many := mounted(t, map[string]string{"/credentials/0/a": strings.Repeat("key\n", 1000)})
	if _, err := many.Credentials(vmi); err == nil || !strings.Contains(err.Error(), "more than 10000 keys") {
		t.Errorf("1,000 keys for 1,000 users: %v", err)
	}
	files, text := map[string]string{}, ""
	for i := range 10 {
		files[fmt.Sprintf("/credentials/%d/a", i)] = strings.Repeat("k", 1<<20)
		text += fmt.Sprintf("- userPassword: {source: {secret: {secretName: s%d}}, propagationMethod: {qemuGuestAgent: {}}}\n", i)
	}
	large := withCredentials(t, having(v1.VolumeSource{}), text)
	if _, err := mounted(t, files).Credentials(large); err == nil || !strings.Contains(err.Error(), "more than 8388608 bytes") {
		t.Errorf("10 MiB of passwords: %v", err)
	}
}

// TestNeedAgent: which methods need the agent.
func TestNeedAgent(t *testing.T) {
	for text, want := range map[string]bool{
		"[]": false, "[{sshPublicKey: {propagationMethod: {noCloud: {}}}}, {}]": false,
		"[{sshPublicKey: {propagationMethod: {qemuGuestAgent: {users: [a]}}}}]": true, "[{userPassword: {propagationMethod: {qemuGuestAgent: {}}}}]": true,
	} {
		if got := NeedAgent(withCredentials(t, having(v1.VolumeSource{}), text)); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
	}
}

// TestCloudInitKeys: each data source gets the keys of its method, by the names that cloud-init reads.
func TestCloudInitKeys(t *testing.T) {
	for _, c := range []struct {
		label, file, name string
		source            v1.VolumeSource
		want              []string
	}{
		{"cidata", "meta-data", "public-keys", v1.VolumeSource{CloudInitNoCloud: &v1.CloudInitNoCloudSource{UserData: "u"}}, []string{"key 0", "key 1"}},
		{"config-2", "openstack/latest/meta_data.json", "public_keys", v1.VolumeSource{CloudInitConfigDrive: &v1.CloudInitConfigDriveSource{UserData: "u"}},
			[]string{`key 2 "quoted"\`, "key 3"}},
	} {
		vmi := withCredentials(t, having(c.source), someCredentials)
		bound, errs := mounted(t, someSecrets).Bind(t.Context(), vmi)
		refused(t, c.label, "", errs.ToAggregate())
		raw, err := yaml.YAMLToJSON([]byte(contents(t, bound.Volumes["data"].Path, c.label)[c.file]))
		if err != nil {
			t.Fatal(err)
		}
		var about map[string]json.RawMessage
		keys := map[string]string{}
		if err := json.Unmarshal(raw, &about); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(about[c.name], &keys); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, slices.Sorted(maps.Values(keys))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.file, diff)
		}
		_, errs = mounted(t, nil).Bind(t.Context(), vmi)
		refused(t, "keys that are not mounted", "of accessCredentials is not mounted", errs.ToAggregate())
	}
}
