package clusterconfig

import (
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/kilnvm/kiln/pkg/config"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// installedVersion is a KubeVirt object with the version that virt-operator has written.
func installedVersion(version string) *v1.KubeVirt {
	object := &v1.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: "kubevirt", Name: "kubevirt"}}
	object.Status.ObservedKubeVirtVersion = version
	return object
}

// TestVersions: beside KubeVirt the version in the status applies, unless the flag names another; without KubeVirt the newest.
func TestVersions(t *testing.T) {
	for _, test := range []struct {
		status     string
		flag, want config.Version
		warned     string
	}{
		{"v1.7.0", 0, 7, ""}, {"v1.8.2", 0, 8, ""}, {"v1.8.0-rc.1", 0, 8, ""}, {"v1.9.0", 0, 9, ""},
		{"", 0, config.Newest, ""},
		{"v1.6.3", 0, config.Oldest, "'v1.6.3', and Kiln knows v1.7 to v1.9: the rules of v1.7 apply"},
		{"v1.10.0", 0, config.Newest, "the rules of v1.9 apply"},
		{"sha256:0123", 0, config.Newest, "--kubevirt-version"},
		{"v1.9.0", 8, 8, ""}, {"", 7, 7, ""},
	} {
		read, err := newReading("here", installedVersion(test.status))
		if err != nil {
			t.Fatal(err)
		}
		if warning := strings.Join(read.Warnings, "\n"); !strings.Contains(warning, test.warned) || (warning == "") != (test.warned == "") {
			t.Errorf("version '%s': warnings %q", test.status, read.Warnings)
		}
		w := &Watcher{KubeVirtVersion: test.flag, Log: logr.Discard()}
		w.putReading(read)
		if got := w.Now().Limits; got.Version != config.Newest || !got.Gates.Enabled("PasstBinding") {
			t.Errorf("version '%s' without KubeVirt: %s", test.status, got.Version)
		}
		w.runByKubeVirt = true
		w.putInForce()
		if got := w.Now().Limits; got.Version != test.want || got.Gates.Enabled("PasstBinding") != (test.want == 9) {
			t.Errorf("version '%s', --kubevirt-version '%s': %s, want %s", test.status, test.flag, got.Version, test.want)
		}
	}
}

// TestUpgradedKubeVirt: a status that changes while Kiln runs changes the rules.
func TestUpgradedKubeVirt(t *testing.T) {
	w := &Watcher{Log: logr.Discard(), runByKubeVirt: true}
	for _, step := range []struct {
		status string
		want   config.Version
	}{{"", 9}, {"v1.7.0", 7}, {"v1.8.2", 8}, {"v1.9.0", 9}} {
		read, err := newReading("here", installedVersion(step.status))
		if err != nil {
			t.Fatal(err)
		}
		w.putReading(read)
		if got := w.Now().Limits.Version; got != step.want {
			t.Errorf("after '%s' the version of the rules is %s, want %s", step.status, got, step.want)
		}
	}
}
