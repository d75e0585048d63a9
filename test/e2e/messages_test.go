package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a user reads who writes one of the mistakes of messages/, from the real kubectl; GOLDEN=rewrite keeps what is said now.
// Read it: each message names the field, the value and what to do.
func TestMessagesOfWrongManifests(t *testing.T) {
	s := newSpace(t)
	manifests, err := filepath.Glob("messages/*.yaml")
	if err != nil || len(manifests) < 20 {
		t.Fatalf("%d wrong manifests, want 20 or more: %v", len(manifests), err)
	}
	for _, file := range manifests {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			manifest, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			answer := s.kubectl(string(manifest), "create", "-f", "-")
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if os.Getenv("GOLDEN") == "rewrite" {
				if err := os.WriteFile(golden, []byte(answer.stderr), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), answer.stderr); diff != "" {
				t.Errorf("-kept +said\n%s", diff)
			}
			// A reference to what does not exist yet is no mistake of the VM: it brings a warning, and the VM waits.
			if admitted := strings.HasPrefix(answer.stderr, "Warning: ") && !strings.Contains(answer.stderr, "is invalid"); admitted != (answer.err == nil) {
				t.Errorf("kubectl ends with %v", answer.err)
			}
			if answer.err == nil {
				s.must(s.kubectl(string(manifest), "delete", "-f", "-"))
			}
		})
	}
	kept, err := filepath.Glob("messages/*.txt")
	if err != nil || len(kept) != len(manifests) {
		t.Errorf("%d messages of %d manifests: %v", len(kept), len(manifests), err)
	}
}
