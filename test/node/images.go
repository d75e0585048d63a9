package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/kilnvm/kiln/manifests/images/archive"
)

// Import puts the images of an archive into the node's containerd, under the names that the archive gives them. Pods use them by these names: the default
// imagePullPolicy of a tag other than 'latest' asks no registry.
func (n *Node) Import(t testing.TB, file string) {
	t.Helper()
	if err := n.ImportImage(t.Context(), file); err != nil {
		t.Fatal(err)
	}
}

// ImportImage is Import outside of tests. It returns when kubelet can see the images.
func (n *Node) ImportImage(ctx context.Context, file string) error {
	if _, err := n.runContainerdClient(ctx, "images", "import", file); err != nil {
		return err
	}
	// containerd tells its part that serves kubelet by an event, which puts a label on what it has taken over.
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		left, err := n.runContainerdClient(ctx, "images", "list", "--quiet", `labels."io.cri-containerd.image"!=managed`)
		if err != nil {
			return err
		}
		if strings.TrimSpace(left) == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("containerd did not make these images known to kubelet: %s", strings.Fields(left))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// runContainerdClient runs containerd's client in the namespace of kubelet's images.
func (n *Node) runContainerdClient(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, n.Ctr, append([]string{"--address", n.Containerd, "--namespace", "k8s.io"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), nil
}

// Program builds a command of this repository without C libraries, and writes an image to file that contains only this command, as its entrypoint.
func Program(ctx context.Context, pkg, image, file string) error {
	root, err := repositoryRoot()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "kiln-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	binary := filepath.Join(work, "program")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, pkg)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return WriteProgram(binary, filepath.Base(pkg), image, file)
}

// WriteProgram writes an image to file that contains only a program of this machine, as its entrypoint, at a path in the image. The program must need no
// libraries.
func WriteProgram(program, path, image, file string) error {
	files := &archive.Root{}
	if err := files.AddFile(path, program, 0o755); err != nil {
		return err
	}
	return archive.Write(file, image, archive.Image{
		OS: "linux", Architecture: runtime.GOARCH, Root: files, Config: archive.Config{Entrypoint: []string{"/" + path}},
	})
}

// sandbox is the image of the process that keeps a pod's namespaces; containerd.toml of test/controlplane/node says the same name.
const sandbox = "docker.io/library/pause:1"

// importSandbox is done for every node: containerd would look for it in a registry.
func (n *Node) importSandbox(ctx context.Context) error {
	file, err := n.sandboxArchive(ctx)
	if err != nil {
		return err
	}
	return n.ImportImage(ctx, file)
}

// sandboxArchive returns the archive of the image sandbox, and makes it once.
func (n *Node) sandboxArchive(ctx context.Context) (file string, err error) {
	file = filepath.Join(n.supervisor.dir, "pause.tar")
	if _, err = os.Stat(file); os.IsNotExist(err) {
		err = Program(ctx, "./test/node/pause", sandbox, file)
	}
	return file, err
}
