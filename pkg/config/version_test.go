package config

import "testing"

func TestParseVersion(t *testing.T) {
	for _, test := range []struct {
		text        string
		want, known Version
	}{
		{"v1.8.2", 8, 8}, {"1.8", 8, 8}, {"v1.9.0-rc.0", 9, 9}, {"v1.7.0", 7, 7},
		{"v1.6.3", 6, Oldest}, {"v1.12.0", 12, Newest}, {"v1.65536.0", 0, 0}, {"v1.-1", 0, 0}, {"v1.0.0", 0, 0},
		{"v2.0.0", 0, 0}, {"v0.59.0", 0, 0}, {"sha256:1.8.2", 0, 0}, {"devel", 0, 0}, {"", 0, 0}, {"1", 0, 0},
	} {
		got, err := ParseVersion(test.text)
		if got != test.want || (err != nil) != (test.want == 0) {
			t.Errorf("%s: version %d, %v, want %d", test.text, got, err, test.want)
		}
		if err == nil && got.Nearest() != test.known {
			t.Errorf("%s: the nearest version is %d, want %d", test.text, got.Nearest(), test.known)
		}
	}
	for _, text := range []string{"", "v1.8"} {
		var read Version
		if err := read.UnmarshalText([]byte(text)); err != nil {
			t.Error(err)
		}
		if again, err := read.MarshalText(); string(again) != text || err != nil {
			t.Errorf("'%s' is read and written as '%s', %v", text, again, err)
		}
	}
	if Version(0).Nearest() != Newest || Version(0).String() != Newest.String() || Version(8).String() != "v1.8" {
		t.Error("the zero value is not the newest version")
	}
}
