package config

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

func TestDefaultsReadBack(t *testing.T) {
	full := Default().Defaults
	full.CPURequest, full.QuoteSocket, full.EvenEmulatorThreads = new(resource.MustParse("250m")), "/run/qgs", true
	full.EvictionStrategy = new(v1.EvictionStrategyLiveMigrate)
	full.LiveUpdate = &LiveUpdate{MaxCPUSockets: new(uint32(8)), MaxGuest: new(resource.MustParse("64Gi")), MaxHotplugRatio: 4}
	for name, defaults := range map[string]Defaults{"nothing configured": Default().Defaults, "everything": full, "nothing": {}} {
		object, err := Snapshot(defaults)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		read, err := ReadDefaults(raw)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(defaults, *read); diff != "" {
			t.Errorf("%s: read back otherwise than recorded (-recorded +read):\n%s", name, diff)
		}
	}
	if _, err := ReadDefaults([]byte(`{"apiVersion":"apps/v1","kind":"DaemonSet"}`)); err == nil {
		t.Error("another object was read as a configuration")
	}
}
