// Command vault runs in the test guest. It keeps a random secret, sealed by the TPM to the state of Secure Boot, on a disk, and a variable in the firmware.
// Each line that it prints begins with KILN-VAULT:
//
//	secureboot 1           the firmware enforces Secure Boot
//	variable TEXT          the variable is as an earlier boot left it; the word 'none' follows 'variable' if there was none
//	sealed HEX             the disk had nothing: HEX is the secret, sealed now
//	unsealed HEX           the TPM has opened what the disk had
//	refused CODE           after an extension of PCR 7, the TPM does not open it
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/google/go-tpm/tpm2/transport/linuxtpm"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Println("KILN-VAULT usage: vault DISK TEXT")
		os.Exit(2)
	}
	// One failure must not hide what the other part has to say.
	if err := errors.Join(handleVariables(os.Args[2]), handleSecrets(os.Args[1])); err != nil {
		fmt.Println("KILN-VAULT error", err)
		os.Exit(1)
	}
}

const (
	efivars = "/sys/firmware/efi/efivars"
	// global is the GUID of EFI's own variables, and own the GUID of the test's variables.
	global = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
	own    = "6a2a8f0f-5a2b-4c39-9d3c-27f1b5a2e6d4"
)

// attributes begin each file of efivarfs: the variable survives a reset, and boot and runtime services have access to it.
var attributes = []byte{7, 0, 0, 0}

// handleVariables prints the firmware's variables. If the test's variable does not exist, it writes the text into it.
func handleVariables(text string) error {
	if err := syscall.Mount("efivarfs", efivars, "efivarfs", 0, ""); err != nil {
		return fmt.Errorf("efivarfs: %w", err)
	}
	secure, err := os.ReadFile(efivars + "/SecureBoot-" + global)
	if err != nil || len(secure) != len(attributes)+1 {
		return fmt.Errorf("SecureBoot is %x: %w", secure, err)
	}
	fmt.Println("KILN-VAULT secureboot", secure[len(attributes)])
	name := efivars + "/KilnVault-" + own
	kept, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fmt.Println("KILN-VAULT variable none")
		return os.WriteFile(name, append(attributes, text...), 0o600) // the firmware takes a variable in one write
	case err != nil:
		return err
	}
	fmt.Printf("KILN-VAULT variable %s\n", bytes.TrimPrefix(kept, attributes))
	return nil
}

// sealed is what stands at the beginning of the disk.
type sealed struct{ Public, Private []byte }

// secretSize is how many bytes at the beginning of the disk are for the sealed secret.
const secretSize = 4096

// handleSecrets opens the secret of the disk, or seals one.
func handleSecrets(path string) error {
	disk, err := os.OpenFile(path, os.O_RDWR|os.O_SYNC, 0)
	if err != nil {
		return err
	}
	defer disk.Close()
	content := make([]byte, secretSize)
	if _, err := io.ReadFull(disk, content); err != nil {
		return err
	}
	device, err := linuxtpm.Open("/dev/tpmrm0") // which makes room for more sessions and objects than a TPM has
	if err != nil {
		return err
	}
	defer device.Close()
	v, err := openVault(device)
	if err != nil {
		return err
	}
	content = bytes.TrimRight(content, "\x00")
	if len(content) == 0 {
		return v.sealNewSecret(disk)
	}
	var there sealed
	if err := json.Unmarshal(content, &there); err != nil {
		return err
	}
	secret, err := v.unsealSecret(there)
	if err != nil {
		return err
	}
	fmt.Printf("KILN-VAULT unsealed %x\n", secret)
	return v.checkRefusal(there)
}

// sealNewSecret seals a new secret, and writes it to the disk.
func (v *vault) sealNewSecret(disk *os.File) error {
	secret := make([]byte, 16)
	_, _ = rand.Read(secret)
	made, err := v.sealSecret(secret)
	if err != nil {
		return err
	}
	text, err := json.Marshal(made)
	if err != nil {
		return err
	}
	if len(text) > secretSize {
		return fmt.Errorf("%d bytes do not fit", len(text))
	}
	if _, err := disk.WriteAt(append(text, make([]byte, secretSize-len(text))...), 0); err != nil {
		return err
	}
	fmt.Printf("KILN-VAULT sealed %x\n", secret)
	return nil
}

// checkRefusal shows that the secret is sealed to PCR 7: no later state of it opens the secret.
func (v *vault) checkRefusal(there sealed) error {
	if err := v.extendPCR(); err != nil {
		return err
	}
	secret, err := v.unsealSecret(there)
	if err == nil {
		return fmt.Errorf("the TPM opens the secret after PCR 7 has changed: %x", secret)
	}
	fmt.Println("KILN-VAULT refused", err)
	return nil
}
