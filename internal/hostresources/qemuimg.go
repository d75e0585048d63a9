package hostresources

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/kilnvm/kiln/pkg/domain/backend"
)

// imageFormat returns the format of an image that is not trusted, as qemu-img detects it. An image that refers to other files is an error: the guest would
// read them with QEMU's rights.
func imageFormat(ctx context.Context, file string) (string, error) {
	out, err := runQemuImg(ctx, "info", "--output=json", "--", file)
	if err != nil {
		return "", fmt.Errorf("qemu-img cannot read '%s': %w", filepath.Base(file), err)
	}
	var info struct {
		Format   string `json:"format"`
		Backing  string `json:"backing-filename"`
		Specific struct {
			Data struct {
				DataFile string `json:"data-file"`
			} `json:"data"`
		} `json:"format-specific"`
	}
	if err := json.Unmarshal(out, &info); err != nil {
		return "", fmt.Errorf("qemu-img: %w", err)
	}
	if info.Backing != "" || info.Specific.Data.DataFile != "" {
		return "", fmt.Errorf("image '%s' refers to another file, which is not allowed", filepath.Base(file))
	}
	if info.Format != "raw" && info.Format != "qcow2" {
		return "", fmt.Errorf("image '%s' has format '%s'; it must be raw or qcow2", filepath.Base(file), info.Format)
	}
	return info.Format, nil
}

// overlayFile describes a qcow2 file over a read-only image. The guest's writes last as long as its VMI.
func overlayFile(path string, base backend.Volume) volumeSource {
	return volumeSource{Volume: backend.Volume{Path: path, Format: "qcow2", Backing: base.Path, BackingFormat: base.Format, BackingBlock: base.Block},
		file: file{path: path, create: func(ctx context.Context, draft string) error {
			return qemuImg(ctx, "create", "-q", "-f", "qcow2", "-F", base.Format, "-b", base.Path, "--", draft)
		}}}
}

// emptyDisk describes a sparse qcow2 file of at least size bytes.
func emptyDisk(path string, size int64) volumeSource {
	return volumeSource{Volume: backend.Volume{Path: path, Format: "qcow2"},
		file: file{path: path, create: func(ctx context.Context, draft string) error {
			return qemuImg(ctx, "create", "-q", "-f", "qcow2", "--", draft, fmt.Sprint(roundUpToBlock(size)))
		}}}
}

// qemuImg runs qemu-img. The error begins with the subcommand and has the output of qemu-img.
func qemuImg(ctx context.Context, args ...string) error {
	if _, err := runQemuImg(ctx, args...); err != nil {
		return fmt.Errorf("qemu-img %s: %w", args[0], err)
	}
	return nil
}

// qemuImgDeadline bounds a call of qemu-img, which hangs if the server of an image does. Normally it takes less than a second.
const qemuImgDeadline = time.Minute

// runQemuImg runs qemu-img and returns its standard output. If ctx ends, the error is the cause of ctx.
func runQemuImg(ctx context.Context, args ...string) ([]byte, error) {
	within, cancel := context.WithTimeout(ctx, qemuImgDeadline)
	defer cancel()
	out, err := exec.CommandContext(within, "qemu-img", args...).Output()
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil && within.Err() != nil:
		return nil, fmt.Errorf("no result within %s: the server of the image may be down", qemuImgDeadline)
	case err != nil:
		return nil, execError(err)
	}
	return out, nil
}

// execError returns the program's standard error, or its exit status if that is empty.
func execError(err error) error {
	if exit, ok := err.(*exec.ExitError); ok && len(exit.Stderr) > 0 {
		return fmt.Errorf("%s", strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}
