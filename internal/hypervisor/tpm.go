package hypervisor

import (
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// stateLink is the place that a libvirt which cannot be told looks at for the TPM of a guest, and where that is to lead.
func stateLink(note tpmNote) (link, target string, err error) {
	uuid, err := parseUUID(note.UUID) // libvirt writes it its own way
	own := filepath.Dir(note.State)
	root := filepath.Dir(filepath.Dir(own))
	link = filepath.Join(root, fmt.Sprintf("%x-%x-%x-%x-%x", uuid[0:4], uuid[4:6], uuid[6:8], uuid[8:10], uuid[10:]))
	if err == nil {
		target, err = filepath.Rel(root, own)
	}
	return link, target, err
}

// linkState makes a link for a domain that is defined. One that another's domain has left is replaced; a state that lies there itself is not.
func linkState(note tpmNote) error {
	link, target, err := stateLink(note)
	if err != nil {
		return err
	}
	if info, err := os.Lstat(link); err == nil && info.Mode().Type() != fs.ModeSymlink {
		return fmt.Errorf("this machine has a TPM state of UUID %s, and nothing tells whose it is; if it is this guest's, the machine's administrator moves it from '%s' to '%s'",
			note.UUID, link, filepath.Dir(note.State))
	}
	// swtpm runs as a user of its own, to whom libvirt gives the state in it.
	if err := os.MkdirAll(filepath.Dir(note.State), 0o711); err != nil {
		return err
	}
	draft := link + "." + rand.Text()
	if err := os.Symlink(target, draft); err != nil {
		return err
	}
	defer os.Remove(draft)
	return os.Rename(draft, link)
}

// unlinkState removes a link, unless it leads to another's state.
func unlinkState(note tpmNote) error {
	link, target, err := stateLink(note)
	if err != nil {
		return err
	}
	if have, err := os.Readlink(link); err != nil || have != target {
		return nil
	}
	return os.Remove(link)
}
