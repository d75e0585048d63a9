package hypervisor

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/digitalocean/go-libvirt"
	"github.com/kilnvm/kiln/pkg/domain/backend"
)

// libvirt 10.10 and later takes the folder of a TPM's state from the domain's XML (tpm/backend/source of type dir). Older versions derive it from the
// domain's UUID.

// checkTPM refuses a TPM for a session daemon before libvirt 10.10, which would look for the state in a folder of its own that ends with the pod. The links
// below are for the folder of a system daemon.
func (l *Libvirt) checkTPM(documents backend.Documents) error {
	if l.uri == libvirt.QEMUSession && documents.TPMState != "" {
		return errors.New("a libvirt that runs as an unprivileged user must be version 10.10 or later for a TPM: an older one looks for the state in another folder")
	}
	return nil
}

// stateLink returns the path at which a libvirt before 10.10 looks for the state of a TPM, and the target of a link at this path.
func stateLink(tpm tpmLink) (link, target string, err error) {
	uuid, err := parseUUID(tpm.UUID) // in libvirt's spelling
	own := filepath.Dir(tpm.State)
	root := filepath.Dir(filepath.Dir(own))
	link = filepath.Join(root, fmt.Sprintf("%x-%x-%x-%x-%x", uuid[0:4], uuid[4:6], uuid[6:8], uuid[8:10], uuid[10:]))
	if err == nil {
		target, err = filepath.Rel(root, own)
	}
	return link, target, err
}

// linkState creates the link of a defined domain. It replaces a link that another domain left, but never a folder with a state.
func linkState(tpm tpmLink) error {
	link, target, err := stateLink(tpm)
	if err != nil {
		return err
	}
	if info, err := os.Lstat(link); err == nil && info.Mode().Type() != fs.ModeSymlink {
		return fmt.Errorf("this machine has a TPM state of UUID %s whose owner is unknown; "+
			"if it belongs to this VMI, the machine's administrator must move it from '%s' to '%s'", tpm.UUID, link, filepath.Dir(tpm.State))
	}
	// swtpm runs as a user of its own. libvirt changes the owner of the state in this folder to this user.
	if err := os.MkdirAll(filepath.Dir(tpm.State), 0o711); err != nil {
		return err
	}
	draft := link + "." + rand.Text()
	if err := os.Symlink(target, draft); err != nil {
		return err
	}
	defer os.Remove(draft)
	return os.Rename(draft, link)
}

// unlinkState removes the link, unless it leads to another TPM's state. It does not remove the state: bind.BareMachine removes it with its VMI, if at all.
func unlinkState(tpm tpmLink) error {
	link, target, err := stateLink(tpm)
	if err != nil {
		return err
	}
	if have, err := os.Readlink(link); err != nil || have != target {
		return nil
	}
	return os.Remove(link)
}
