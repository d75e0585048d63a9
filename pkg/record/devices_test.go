package record

import (
	"math"
	"testing"
)

// TestKeysOfControllers: what is formed is read, and nothing else is.
func TestKeysOfControllers(t *testing.T) {
	t.Parallel()
	for _, index := range []uint{1, 9, 10, 254, 255, math.MaxUint32} {
		if got, ok := Port(ControllerKey("pci", index)); !ok || got != index {
			t.Errorf("%s: index %d, %t", ControllerKey("pci", index), got, ok)
		}
	}
	if got := ControllerKey("pci", 3); got != "controller.pci.3" {
		t.Errorf("%s: stored records have 'controller.pci.3'", got)
	}
	for key, why := range map[string]string{
		ControllerKey("pci", 0):     "the root bus has no address",
		ControllerKey("usb", 1):     "a USB controller",
		"controller.pci.01":         "a second key of index 1",
		"controller.pci.+1":         "a second key of index 1",
		"controller.pci.":           "no index",
		"controller.pci":            "no index",
		"controller.pci.-1":         "no index",
		"controller.pci.4294967296": "more than 32 bits",
		"controller.pci.1.2":        "no index",
		"controller.pcie.1":         "another type",
		"disk.pci.1":                "a disk with the name 'pci.1'",
		"xcontroller.pci.1":         "another kind",
		"":                          "no key",
	} {
		if index, ok := Port(key); ok {
			t.Errorf("'%s' is read as index %d: %s", key, index, why)
		}
	}
}

// TestKeys: names may have dots, such as the names of controllers.
func TestKeys(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ key, kind, name string }{
		{"disk.root", "disk", "root"},
		{"disk.a.b", "disk", "a.b"},
		{"controller.pci.1", "controller", "pci.1"},
		{"disk.", "disk", ""},
	} {
		kind, name := SplitKey(test.key)
		if kind != test.kind || name != test.name || Key(kind, name) != test.key {
			t.Errorf("%s: kind '%s', name '%s'", test.key, kind, name)
		}
	}
	if kind, name := SplitKey("disk"); kind != "disk" || name != "" {
		t.Errorf("a key without a name: '%s', '%s'", kind, name)
	}
}
