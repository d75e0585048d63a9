package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// recorder is command test/kubevirt/record, built with one version of KubeVirt.
type recorder struct {
	version string
	program string
	// module is the folder of the module that it was built in.
	module string
}

// build builds the recorder in a module that has KubeVirt's own requirements and replacements of this version. What test/kubevirt replaces because no test
// calls it is replaced here too. It takes some minutes of CPU time for the first time.
func build(ctx context.Context, version string) (recorder, error) {
	root, err := os.Getwd()
	if err != nil {
		return recorder{}, err
	}
	r := recorder{version: version, module: filepath.Join(root, "bin", "kubevirt", version, "module")}
	r.program = filepath.Join(filepath.Dir(r.module), "record")
	if err := errors.Join(os.RemoveAll(r.module), os.MkdirAll(filepath.Join(r.module, "record"), 0o755)); err != nil {
		return r, err
	}
	sources, err := filepath.Glob("test/kubevirt/record/*.go")
	if err != nil || len(sources) == 0 {
		return r, fmt.Errorf("test/kubevirt/record has no sources: %w", err)
	}
	for _, source := range sources {
		if err := copyFile(source, filepath.Join(r.module, "record", filepath.Base(source))); err != nil {
			return r, err
		}
	}
	folder, err := r.folderOf(ctx, root, "kubevirt.io/kubevirt")
	if err != nil {
		return r, err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		if err := copyFile(filepath.Join(folder, name), filepath.Join(r.module, name)); err != nil {
			return r, err
		}
	}
	edit := []string{"mod", "edit", "-module=example.org/record", "-require=kubevirt.io/kubevirt@" + version}
	for _, name := range []string{"kubevirt.io/api", "kubevirt.io/client-go"} { // folders of KubeVirt's own repository
		edit = append(edit, "-require="+name+"@"+version, "-replace="+name+"="+name+"@"+version)
	}
	for name, folder := range map[string]string{
		"kubevirt.io/virt-template-api": "templates/api", "kubevirt.io/virt-template-client-go": "templates/client",
		"kubevirt.io/virt-template-engine": "templates/engine", "libvirt.org/go/libvirt": "libvirt",
	} {
		edit = append(edit, "-replace="+name+"="+filepath.Join(root, "test", "kubevirt", "standins", folder))
	}
	if _, err := r.goCommand(ctx, r.module, edit...); err != nil {
		return r, err
	}
	_, err = r.goCommand(ctx, r.module, "build", "-mod=mod", "-tags", "kubevirt", "-o", r.program, "./record")
	return r, err
}

// folderOf returns the folder of the sources of a module in this version, which it downloads.
func (r recorder) folderOf(ctx context.Context, dir, module string) (string, error) {
	out, err := r.goCommand(ctx, dir, "mod", "download", "-json", module+"@"+r.version)
	if err != nil {
		return "", err
	}
	var downloaded struct{ Dir string }
	return downloaded.Dir, json.Unmarshal(out, &downloaded)
}

func (r recorder) goCommand(ctx context.Context, dir string, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	var failed bytes.Buffer
	command.Stderr = &failed
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", strings.Join(args[:2], " "), err, failed.String())
	}
	return out, nil
}

func copyFile(from, to string) error {
	raw, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, raw, 0o644)
}

// answer is what a version of KubeVirt says of a case.
type answer struct {
	ID     string          `json:"id"`
	Pruned []string        `json:"pruned,omitempty"`
	Varies bool            `json:"varies,omitempty"`
	Expect json.RawMessage `json:"expect"`
}

func (a answer) equals(b answer) bool {
	return bytes.Equal(a.Expect, b.Expect) && strings.Join(a.Pruned, "\n") == strings.Join(b.Pruned, "\n")
}

// answerKept returns the answers to the kept cases, by their IDs.
func (r recorder) answerKept(ctx context.Context) (map[string]answer, error) {
	cases, err := unzip(filepath.Join(kept, "cases.jsonl.gz"))
	if err != nil {
		return nil, err
	}
	return r.answer(ctx, cases, filepath.Join(kept, "configs.json"))
}

func (r recorder) answer(ctx context.Context, cases []byte, configs string) (map[string]answer, error) {
	command := exec.CommandContext(ctx, r.program, "-configs", configs)
	command.Stdin = bytes.NewReader(cases)
	var failed bytes.Buffer
	command.Stderr = &failed
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", r.program, err, failed.String())
	}
	return parseAnswers(out)
}

func parseAnswers(raw []byte) (map[string]answer, error) {
	answers := map[string]answer{}
	return answers, eachLine(raw, func(line []byte) error {
		var a answer
		if err := json.Unmarshal(line, &a); err != nil {
			return err
		}
		answers[a.ID] = a
		return nil
	})
}

func readAnswers(path string) (map[string]answer, error) {
	raw, err := unzip(path)
	if err != nil {
		return nil, err
	}
	return parseAnswers(raw)
}

// recorded are the corpora of test/conformance that virt-api's webhooks answer.
var recorded = []string{"mutate", "validate-vmi", "validate-vm"}

// answerCorpus writes the cases of a folder with the answers of this version. Cases whose answers vary are left out.
func (r recorder) answerCorpus(ctx context.Context, dir string) error {
	out := filepath.Join(filepath.Dir(r.module), "answers")
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	configs := filepath.Join(dir, "configs.json")
	if err := copyFile(configs, filepath.Join(out, "configs.json")); err != nil {
		return err
	}
	for _, name := range recorded {
		cases, err := unzip(filepath.Join(dir, name+".jsonl.gz"))
		if err != nil {
			return err
		}
		answers, err := r.answer(ctx, cases, configs)
		if err != nil {
			return err
		}
		var lines []any
		err = eachLine(cases, func(line []byte) error {
			var c map[string]json.RawMessage
			if err := json.Unmarshal(line, &c); err != nil {
				return err
			}
			a := answers[strings.Trim(string(c["id"]), `"`)]
			if c["expect"] = a.Expect; len(a.Pruned) > 0 {
				pruned, err := json.Marshal(a.Pruned)
				if err != nil {
					return err
				}
				c["pruned"] = pruned
			}
			if !a.Varies {
				lines = append(lines, c)
			}
			return nil
		})
		if err == nil {
			err = writeLines(filepath.Join(out, name+".jsonl.gz"), lines)
		}
		if err != nil {
			return err
		}
		fmt.Printf("%s: %d answers in %s\n", name, len(lines), out)
	}
	return nil
}

func unzip(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return io.ReadAll(unzipped)
}

func eachLine(raw []byte, visit func([]byte) error) error {
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if err := visit(lines.Bytes()); err != nil {
			return err
		}
	}
	return lines.Err()
}
