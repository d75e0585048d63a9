package pods

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kilnvm/kiln/test/cluster"
)

// tool is the path of kubectl-kiln.
type tool string

// buildTool builds kubectl-kiln.
func buildTool(t *testing.T) tool {
	t.Helper()
	dir := t.TempDir()
	if err := cluster.Build(t.Context(), "../..", dir, "kubectl-kiln"); err != nil {
		t.Fatal(err)
	}
	return tool(filepath.Join(dir, "kubectl-kiln"))
}

// run runs kubectl-kiln as the administrator of the shared node, in a namespace. The error contains what it wrote to standard error.
func (k tool) run(ctx context.Context, namespace string, args ...string) (stdout []byte, err error) {
	command := exec.CommandContext(ctx, string(k), append(args, "--namespace", namespace)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+shared.Kubeconfig())
	var stderr bytes.Buffer
	command.Stderr = &stderr
	if stdout, err = command.Output(); err != nil {
		err = fmt.Errorf("kubectl kiln %s: %w: %s", args[0], err, stderr.Bytes())
	}
	return stdout, err
}
