package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"testing"
)

// TestRoots: if the system has no certificate authorities, as in the image 'kiln', registries are verified with Mozilla's.
func TestRoots(t *testing.T) {
	if os.Getenv("WITHOUT_SYSTEM_ROOTS") != "" {
		pool, err := x509.SystemCertPool()
		if err != nil || pool.Equal(x509.NewCertPool()) {
			t.Errorf("no certificate authorities: %v", err)
		}
		return
	}
	t.Parallel()
	child := exec.Command(os.Args[0], "-test.run=^TestRoots$")
	child.Env = append(os.Environ(), "WITHOUT_SYSTEM_ROOTS=1", "SSL_CERT_FILE="+os.DevNull, "SSL_CERT_DIR="+t.TempDir())
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
