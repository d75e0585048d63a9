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

// Fields: a volume with cloudInitNoCloud or cloudInitConfigDrive.
// The user data is text that a root process of the guest obeys, so that no value may add a line to it.

// Words of --cloud-init.
const (
	noCloud     = "nocloud"
	configDrive = "configdrive"
	none        = "none"
)

// cloudConfig is the first line of user data that cloud-init reads as YAML.
const cloudConfig = "#cloud-config"

// cloudInit adds the volume with the user data and the network data. One with neither is added only where --cloud-init asks for it.
func (b *building) cloudInit() error {
	kind := strings.ToLower(b.CloudInit)
	if kind != noCloud && kind != configDrive && kind != none {
		return wrong("cloud-init", "'%s' must be '%s', '%s' or '%s'", b.CloudInit, noCloud, configDrive, none)
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
		b.warnings = append(b.warnings, "--password-file: the password stands in the VM: every user who may get the VM reads it")
	}
	if b.CloudInitUserData != "" {
		if written != cloudConfig {
			return wrong("cloud-init-user-data", "cannot be combined with --user, --password-file, --ssh-key or --ga-manage-ssh")
		}
		written = ""
	}
	volume := v1.Volume{Name: cloudInitVolume}
	if kind == noCloud {
		volume.CloudInitNoCloud = &v1.CloudInitNoCloudSource{UserData: written, UserDataBase64: b.CloudInitUserData, NetworkDataBase64: b.CloudInitNetwork}
	} else {
		volume.CloudInitConfigDrive = &v1.CloudInitConfigDriveSource{UserData: written, UserDataBase64: b.CloudInitUserData, NetworkDataBase64: b.CloudInitNetwork}
	}
	return b.add(parameters{flag: "cloud-init"}, volume)
}

// userData writes the user data as virtctl does. Values are written as YAML, so that a password such as 'a: b' or '0123' stays what it is, and
// none adds lines of its own.
func (b *building) userData() (string, error) {
	text := cloudConfig
	for _, line := range []struct{ before, value, after string }{
		{"\nuser: ", b.User, ""}, {"\npassword: ", b.Password, "\nchpasswd: { expire: False }"},
	} {
		if line.value == "" {
			continue
		}
		value, err := scalar(line.value)
		if err != nil {
			return "", err
		}
		text += line.before + value + line.after
	}
	for i, key := range b.SSHKeys {
		if i == 0 {
			text += "\nssh_authorized_keys:"
		}
		value, err := scalar(key)
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

// scalar returns a text as YAML on one line.
func scalar(text string) (string, error) {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return "", errors.New("the user, the password and each SSH key must be one line of UTF-8 without control characters")
	}
	marshaled, err := yaml.Marshal(text)
	if err != nil {
		return "", err
	}
	written := strings.TrimSpace(string(marshaled))
	switch { // Trap: Marshal breaks a line at a space after 80 bytes, as an SSH key has before its comment. What follows would be no part of the value.
	case !strings.Contains(written, "\n"):
		return written, nil
	case strings.IndexByte(`'"`, written[0]) < 0: // it needs no quotes
		return text, nil
	}
	quoted, err := json.Marshal(text) // JSON is YAML
	return string(quoted), err
}
