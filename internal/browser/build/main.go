// Program build writes what a page needs to run 'kubectl kiln' in a browser: kiln.wasm.gz, and wasm_exec.js of the same Go version. It runs in the root of the
// repository.
package main

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kilnvm/kiln/internal/site"
)

func main() {
	out := flag.String("o", "bin/browser", "folder to write")
	version := flag.String("version", "", "version that 'kubectl kiln version' prints; default: the commit")
	flag.Parse()
	if err := build(*out, *version); err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		os.Exit(1)
	}
}

func build(out, version string) error {
	scratch, err := os.MkdirTemp("", "kiln-browser-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	program := filepath.Join(scratch, "kiln.wasm")
	command := exec.Command("go", "build", "-buildvcs=false", "-o", program,
		"-ldflags", "-s -w -X github.com/kilnvm/kiln/internal/version.stamp="+version, "./internal/browser")
	command.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("go build: %w", err)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	runner, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", site.Runner))
	if err != nil {
		return err
	}
	wasm, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	compressed, err := compress(wasm)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, file := range []struct {
		name    string
		content []byte
	}{{site.Program, compressed}, {site.Runner, runner}} {
		if err := os.WriteFile(filepath.Join(out, file.name), file.content, 0o644); err != nil {
			return err
		}
	}
	fmt.Printf("%s: %d bytes, %d uncompressed\n", filepath.Join(out, site.Program), len(compressed), len(wasm))
	return nil
}

// compress returns a program as gzip, without a time, so that the same program gives the same bytes. Pages decompress it themselves: many servers of static
// files compress nothing, and none of them finds out that WebAssembly shrinks to a fifth.
func compress(wasm []byte) ([]byte, error) {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	if _, err := writer.Write(wasm); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
