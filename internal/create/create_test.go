package create

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// command is 'create vm' without flags.
func command() VM {
	return VM{Name: "web", RunStrategy: "Always", CloudInit: noCloud, TerminationGracePeriod: 180}
}

func TestParse(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	for _, test := range []struct{ why, text, value, err string }{
		{"a value", "src:a", "a", ""},
		{"a value with colons", "src:docker://a:5000/b", "docker://a:5000/b", ""},
		{"the last of two", "src:a,src:b", "b", ""},
		{"an empty value", "src:", "", ""},
		{"a long value", "src:" + long, long, ""},
		{"no text", "", "", "--f: '' must be NAME:VALUE"},
		{"an empty part", "src:a,", "", "--f: '' must be NAME:VALUE"},
		{"another name", "source:a", "", "--f: 'source' is unknown: use 'src', 'name'"},
		{"names are small", "SRC:a", "", "--f: 'SRC' is unknown: use 'src', 'name'"},
	} {
		p, err := parseParameters("f", test.text, "src", "name")
		if test.err != "" && (err == nil || err.Error() != test.err) || test.err == "" && (err != nil || p.values["src"] != test.value) {
			t.Errorf("%s: %v, %.100v", test.why, err, p.values)
		}
	}
}

// TestVolumesInOrder: without a bootorder, the guest tries to boot from the volumes in their order. Users rely on it.
func TestVolumesInOrder(t *testing.T) {
	f := command()
	f.VolumeImport = []string{"type:ds,src:a,name:import1", "type:ds,src:a,name:import2"}
	f.VolumeBlank = []string{"size:1Gi,name:blank1", "size:1Gi,name:blank2"}
	f.VolumeClonePVC = []string{"src:a/b,name:clone"}
	f.VolumeDatasource = []string{"src:a/b,name:source"}
	f.VolumePVC, f.VolumeContainerdisk = []string{"src:claim"}, []string{"src:image"}
	f.VolumeSysprep, f.User = "src:answers", "me"
	vm, warnings, err := f.Build()
	if err != nil || len(warnings) != 3 {
		t.Fatal(err, warnings)
	}
	var names []string
	for _, volume := range vm.Spec.Template.Spec.Volumes {
		names = append(names, volume.Name)
	}
	want := strings.Fields("web-containerdisk-0 claim blank2 blank1 clone source import1 import2 sysprepdisk cloudinitdisk")
	if !slices.Equal(names, want) {
		t.Errorf("got  %v\nwant %v", names, want)
	}
}

// TestLongValuesStayOnTheirLine: a line break in user data would end the value.
func TestLongValuesStayOnTheirLine(t *testing.T) {
	long := strings.Repeat("A", 720)
	for text, want := range map[string]string{
		"ssh-rsa " + long + " me@host of mine": "ssh-rsa " + long + " me@host of mine", // as virtctl writes it
		"it's: " + long + " and more":          `"it's: ` + long + ` and more"`,
		"short: a":                             "'short: a'",
	} {
		if got, err := yamlScalar(text); err != nil || got != want {
			t.Errorf("got %s, want %s: %v", got, want, err)
		}
	}
}

// FuzzVM: whatever stands in flags, it is refused or becomes a manifest that reads back, in which user and key are one value each.
func FuzzVM(f *testing.F) {
	f.Add("type:ds,src:a", "src:b,bootorder:1", "type:ssh,src:s,user:u", "me", "ssh-ed25519 AAAA")
	f.Add("type:http,url:http://a,size:1Gi,extraheaders:a;b", "src:a,name:b", "src:s,method:nocloud", "a: b\n", "- x")
	long := strings.Repeat("A", 720)
	f.Add("type:ds,src:a", "src:b", "type:ssh,src:s,user:u", "a: "+long+" # c", "ssh-rsa "+long+" me@host of mine")
	f.Add("type:vddk,uuid:1", "src:a/b/c,bootorder:99999999999", "type:password,src:/", "#", "\x00")
	f.Fuzz(func(t *testing.T, imported, claim, credential, user, key string) {
		vm := command()
		vm.VolumeImport, vm.VolumePVC, vm.AccessCred, vm.User, vm.SSHKeys = []string{imported}, []string{claim}, []string{credential}, user, []string{key}
		made, _, err := vm.Build()
		if err != nil {
			return
		}
		for _, volume := range made.Spec.Template.Spec.Volumes {
			if volume.CloudInitNoCloud == nil {
				continue
			}
			var config struct {
				User string   `json:"user"`
				Keys []string `json:"ssh_authorized_keys"`
			}
			err := yaml.Unmarshal([]byte(volume.CloudInitNoCloud.UserData), &config)
			if err != nil || config.User != user || !slices.Equal(config.Keys, vm.SSHKeys) {
				t.Errorf("user '%q' and key '%q' became %+v: %v\n%s", user, key, config, err, volume.CloudInitNoCloud.UserData)
			}
		}
	})
}
