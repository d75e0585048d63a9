package guest

import (
	"os"
	"path/filepath"
)

// udevFolder holds udev in a guest: the program, its loader and its libraries.
const udevFolder = "udev"

// AddUdev adds Debian's udev to an initramfs of Build. Then the guest reports the names that udev gives to network interfaces, and the links that it makes for
// disks: NIC.Predictable and Disk.Link.
func AddUdev(initramfs string) error {
	program, err := findUdev()
	if err != nil {
		return err
	}
	files, err := linkedFiles(udevFolder, program)
	if err != nil {
		return err
	}
	return appendFolder(initramfs, udevFolder, files)
}

// findUdev returns the path of the installed udevadm, or of the program in Debian's package.
func findUdev() (string, error) {
	const program = "bin/udevadm"
	if _, err := os.Stat("/" + program); err == nil {
		return "/" + program, nil
	}
	root, err := unpackedPackage("udev")
	return filepath.Join(root, program), err
}
