package hypervisor

import (
	"context"
	"encoding/base64"
)

// SetAuthorizedKeys replaces the SSH keys of a user of the owner's guest, by its agent. The agent needs guest-ssh-add-authorized-keys with 'reset', which
// qemu-guest-agent has from version 6.0 on.
func (l *Libvirt) SetAuthorizedKeys(ctx context.Context, owner Owner, user string, keys []string) error {
	var nothing struct{}
	list := append([]string{}, keys...) // never null in JSON
	return l.askAgent(ctx, owner.Domain(), agentCommand{"guest-ssh-add-authorized-keys", map[string]any{"username": user, "keys": list, "reset": true}}, &nothing)
}

// SetPassword sets the password of a user of the owner's guest, by its agent. The password is plain text.
func (l *Libvirt) SetPassword(ctx context.Context, owner Owner, user, password string) error {
	var nothing struct{}
	encoded := base64.StdEncoding.EncodeToString([]byte(password))
	arguments := map[string]any{"username": user, "password": encoded, "crypted": false}
	return l.askAgent(ctx, owner.Domain(), agentCommand{"guest-set-user-password", arguments}, &nothing)
}
