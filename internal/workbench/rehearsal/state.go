package rehearsal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/kilnvm/kiln/api/v1alpha1"
	"github.com/kilnvm/kiln/internal/version"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
)

// State keeps the results of a rehearsal in a file, by the keys of VMs: the next run computes only the VMs whose content, or the content of what they refer to,
// has changed. A run that is killed loses the results since the last write.
type State struct {
	path     string
	settings string
	saved    int
	written  time.Time
}

// NewState returns a state in a file, which need not exist.
func NewState(path string) *State { return &State{path: path} }

// stateHead is the first line of a state file. The rest of the file is the JSON of the results.
type stateHead struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Settings is the digest of this program and of all settings that judge every VM. Results of other settings are not used.
	Settings string `json:"settings"`
	// Digest is the SHA-256 of the rest of the file.
	Digest string `json:"digest"`
}

// stateKind is the kind of a state file.
const stateKind = "RehearsalState"

// maxStateBytes bounds what is read: 100,000 results have about 200 MB.
const maxStateBytes = 512 << 20

// openState reads the results of an earlier run. It fails for a file that is no state of Kiln, because the file would be overwritten. It starts anew if the
// file is damaged, or has results of other settings.
func (h *rehearser) openState(ctx context.Context) error {
	s := h.options.State
	if s == nil {
		return nil
	}
	var err error
	if s.settings, err = h.settingsDigest(ctx); err != nil {
		return err
	}
	info, err := os.Stat(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("--state %s is not a regular file", s.path)
	case info.Size() > maxStateBytes:
		return fmt.Errorf("--state %s has more than %d MiB: remove it", s.path, maxStateBytes>>20)
	}
	raw, err := os.ReadFile(s.path)
	if err != nil || len(raw) == 0 {
		return err
	}
	line, rest, _ := bytes.Cut(raw, []byte("\n"))
	var head stateHead
	if json.Unmarshal(line, &head) != nil || head.Kind != stateKind || head.APIVersion != v1alpha1.CommandLineVersion {
		return fmt.Errorf("--state %s is not a state of a rehearsal: name another file, or remove it", s.path)
	}
	sum := sha256.Sum256(rest)
	results := map[string]*Result{}
	switch {
	case head.Digest != hex.EncodeToString(sum[:]) || json.Unmarshal(rest, &results) != nil:
		h.Warnings = append(h.Warnings, fmt.Sprintf("--state %s is damaged, and is written anew", s.path))
	case head.Settings != s.settings:
		h.Warnings = append(h.Warnings, fmt.Sprintf("--state %s has results of other settings, of another day or of another version of Kiln, and is written anew",
			s.path))
	default:
		for key, result := range results {
			if result != nil && result.Verdict.Rank() >= 0 {
				h.results[key] = result
			}
		}
		s.saved = len(h.results)
	}
	return nil
}

// saveInterval is the time between two writes of the state.
const saveInterval = 10 * time.Second

// saveState writes the results, at once or if the last write is some time ago. The file has the old or the new results at any time, because a new file is
// renamed.
func (h *rehearser) saveState(now bool) error {
	s := h.options.State
	if s == nil || len(h.results) == s.saved || !now && time.Since(s.written) < saveInterval {
		return nil
	}
	rest, err := json.Marshal(h.results)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(rest)
	head, err := json.Marshal(stateHead{v1alpha1.CommandLineVersion, stateKind, s.settings, hex.EncodeToString(sum[:])})
	if err != nil {
		return err
	}
	if err := WriteAtomically(s.path, append(append(head, '\n'), rest...)); err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	s.saved, s.written = len(h.results), time.Now()
	return nil
}

// WriteAtomically replaces a file with new content. Readers see the old or the new content, also after a crash.
func WriteAtomically(path string, content []byte) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(file.Name())
		}
	}()
	_, err = file.Write(content)
	err = errors.Join(err, file.Sync(), file.Close())
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// settingsKinds are the kinds of objects that judge every VM.
var settingsKinds = []schema.GroupVersionKind{
	v1.KubeVirtGroupVersionKind, v1alpha1.GroupVersion.WithKind(v1alpha1.KindFrontendProfile), v1alpha1.GroupVersion.WithKind(v1alpha1.KindClusterGuestProfile),
	v1alpha1.GroupVersion.WithKind(v1alpha1.KindGuestPolicy), v1alpha1.GroupVersion.WithKind(kindHostProfile),
}

// settingsDigest returns the digest of this program and of all settings that judge every VM, before and after the changes.
func (h *rehearser) settingsDigest(ctx context.Context) (string, error) {
	built := version.Read()
	parts := []any{built.Version, built.Revision, built.Time, programFile()}
	for _, at := range []side{h.before, h.after} {
		b := at.bench
		parts = append(parts, b.Runtime, b.KubeVirtVersion.String(), b.User.Username, b.User.Groups, h.KubeVirt, h.KubeVirtAfter)
		// Lifecycles of catalogs change with the day.
		parts = append(parts, b.Now().UTC().Format(time.DateOnly))
		if b.Config != "" {
			raw, err := os.ReadFile(b.Config)
			if err != nil {
				return "", err
			}
			parts = append(parts, digestOf(raw))
		}
		for _, kind := range settingsKinds {
			if kind.Kind == kindHostProfile && !h.options.Laid.has(kindHostProfile) {
				continue
			}
			found, err := listContents(ctx, at.in.Reader, kind, "")
			if err != nil {
				return "", err
			}
			parts = append(parts, kind.Kind, found)
		}
		timed, err := h.dependsOnTime(ctx, at)
		if err != nil {
			return "", err
		}
		if timed {
			parts = append(parts, b.Now().UnixNano())
		}
	}
	raw, err := json.Marshal(parts)
	return digestOf(raw), err
}

// dependsOnTime reports whether results depend on the minute, or on objects that no key covers: GuestPolicyExceptions end, and params of policies may be of any
// kind.
func (h *rehearser) dependsOnTime(ctx context.Context, at side) (bool, error) {
	exceptions, err := listContents(ctx, at.in.Reader, v1alpha1.GroupVersion.WithKind(v1alpha1.KindGuestPolicyException), "")
	if err != nil || len(exceptions) > 0 {
		return true, err
	}
	var list v1alpha1.GuestPolicyList
	if err := at.in.Reader.List(ctx, &list); err != nil {
		return true, nil //nolint:nilerr // policies that cannot be listed are a warning, and no reason to believe old results
	}
	for i := range list.Items {
		if list.Items[i].Spec.ParamKind != nil {
			return true, nil
		}
	}
	return false, nil
}

// programFile identifies the file of this program, because a build from edited sources has the version of the commit.
func programFile() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.Size(), info.ModTime().UnixNano())
}
