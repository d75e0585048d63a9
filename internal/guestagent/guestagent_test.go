package guestagent

import (
	"slices"
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"Debian 13": "Debian 13", "語": "語", "": "",
		"a\nb\x1b[31mc\x00": "ab[31mc", "\u202egnp.exe": "gnp.exe", "a\xffb\u200b": "ab", " \t a ": "a", "\u00a0a": "a",
		strings.Repeat("a", 17): strings.Repeat("a", 16), strings.Repeat("\n", 100) + "b": "b", strings.Repeat("語", 20): strings.Repeat("語", 16),
	} {
		if got := Text(text, 16); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestMAC(t *testing.T) {
	for text, want := range map[string]string{
		"52:54:00:AB:cd:01": "52:54:00:ab:cd:01", "52-54-00-AB-CD-01": "52:54:00:ab:cd:01",
		"": "", "5254.00ab.cd01": "", "52:54:00:ab:cd": "", "52:54:00:ab:cd:01:02:03": "", "zz:54:00:ab:cd:01": "", "52:54:00:ab:cd:01\n": "",
		"00:00:5e:00:53:01:00:00:00:00:00:00:00:00:00:00:00:00:00:01": "",
	} {
		if got := MAC(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestIP(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.2.15": "10.0.2.15", "FD00:0::0001": "fd00::1", "fe80::1%eth0": "fe80::1", "::ffff:10.0.0.1": "10.0.0.1", "169.254.1.1": "169.254.1.1",
		"": "", "010.0.0.1": "", "10.0.0.1/24": "", "127.0.0.1": "", "::1": "", "::ffff:127.0.0.1": "", "0.0.0.0": "", "::": "", "224.0.0.1": "", "ff02::1": "",
		"255.255.255.255": "", "10.0.0.1\n": "", "host": "", "fe80::1%" + strings.Repeat("a", 64): "",
	} {
		if got := IP(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	got := IPs([]string{"no", "10.0.0.2", "10.0.0.2", "::ffff:10.0.0.2", "fe80::1%2", "10.0.0.3", "10.0.0.4"}, 3)
	if want := []string{"10.0.0.2", "fe80::1", "10.0.0.3"}; !slices.Equal(got, want) {
		t.Errorf("the list is %q, want %q", got, want)
	}
	if LinkLocal("10.0.0.1") || LinkLocal("") || !LinkLocal("fe80::1") || !LinkLocal("169.254.1.1") {
		t.Error("a link-local address is taken for another one, or another one for it")
	}
}
