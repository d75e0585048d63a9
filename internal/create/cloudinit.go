package create

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// This file adds a volume with cloudInitNoCloud or cloudInitConfigDrive.
// A root process of the guest executes the user data, so the value of a flag must not be able to add a line to it.

// Values of --cloud-init.
const (
	noCloud     = "nocloud"
	configDrive = "configdrive"
	none        = "none"
)

// cloudConfig is the first line of user data that cloud-init reads as YAML.
const cloudConfig = "#cloud-config"

// addCloudInit adds the volume with the user data and the network data. Without both it adds a volume only if the user gave --cloud-init.
func (b *vmBuilder) addCloudInit() error {
	kind := strings.ToLower(b.CloudInit)
	if kind != noCloud && kind != configDrive && kind != none {
		return flagError("cloud-init", "'%s' must be '%s', '%s' or '%s'", b.CloudInit, noCloud, configDrive, none)
	}
	written, err := b.userData()
	if err != nil {
		return err
	}
	given := written != cloudConfig || b.CloudInitUserData != "" || b.CloudInitNetwork != ""
	if kind == none {
		if given {
			b.warnings = append(b.warnings, "--cloud-init is 'none': the other flags of cloud-init have no effect")
		}
		return nil
	}
	if !given && !b.CloudInitChanged {
		return nil
	}
	if b.Password != "" {
		b.warnings = append(b.warnings, "--password-file: the VM contains the password: every user who may get the VM reads it")
	}
	if b.CloudInitUserData != "" {
		if written != cloudConfig {
			return flagError("cloud-init-user-data", "cannot be combined with --user, --password-file, --ssh-key or --ga-manage-ssh")
		}
		written = ""
	}
	volume := v1.Volume{Name: cloudInitVolume}
	if kind == noCloud {
		volume.CloudInitNoCloud = &v1.CloudInitNoCloudSource{UserData: written, UserDataBase64: b.CloudInitUserData, NetworkDataBase64: b.CloudInitNetwork}
	} else {
		volume.CloudInitConfigDrive = &v1.CloudInitConfigDriveSource{UserData: written, UserDataBase64: b.CloudInitUserData, NetworkDataBase64: b.CloudInitNetwork}
	}
	return b.addVolume(parameters{flag: "cloud-init"}, volume)
}

// userData returns the user data as virtctl writes it. Values are quoted as YAML: a password such as 'a: b' or '0123' remains a string, and no value adds
// a line.
func (b *vmBuilder) userData() (string, error) {
	text := cloudConfig
	for _, line := range []struct{ before, value, after string }{
		{"\nuser: ", b.User, ""}, {"\npassword: ", b.Password, "\nchpasswd: { expire: False }"},
	} {
		if line.value == "" {
			continue
		}
		value, err := yamlScalar(line.value)
		if err != nil {
			return "", err
		}
		text += line.before + value + line.after
	}
	for i, key := range b.SSHKeys {
		if i == 0 {
			text += "\nssh_authorized_keys:"
		}
		value, err := yamlScalar(key)
		if err != nil {
			return "", err
		}
		text += "\n  - " + value
	}
	if b.GAManageSSH {
		text += "\nruncmd:\n  - [ setsebool, -P, 'virt_qemu_ga_manage_ssh', 'on' ]"
	}
	return text, nil
}

// yamlScalar returns a text as YAML on one line.
func yamlScalar(text string) (string, error) {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return "", errors.New("the user, the password and each SSH key must be one line of UTF-8 without control characters")
	}
	marshaled, err := yaml.Marshal(text)
	if err != nil {
		return "", err
	}
	written := strings.TrimSpace(string(marshaled))
	switch { // Trap: Marshal breaks a line at a space after 80 bytes. An SSH key has one before its comment, and the comment would be lost.
	case !strings.Contains(written, "\n"):
		return written, nil
	case strings.IndexByte(`'"`, written[0]) < 0: // it needs no quotes
		return text, nil
	}
	quoted, err := json.Marshal(text) // JSON is YAML
	return string(quoted), err
}
