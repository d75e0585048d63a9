package vm

import "testing"

func TestIsDeviceName(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "A-9_z": true, "-": true, "Z0": true,
		"": false, "a.b": false, "a b": false, "a\n": false, "\na": false, "a/b": false, "ä": false,
	} {
		if IsDeviceName(name) != want {
			t.Errorf("'%s': got %t", name, !want)
		}
	}
}
