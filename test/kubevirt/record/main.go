//go:build kubevirt

// Command record answers admission requests with the webhooks of one version of KubeVirt: it reads a case a line as JSON, and writes an Answer a line. Command
// versions builds it with each version, therefore it calls only functions that all of them have. It starts no virt-api: virt-api's own handlers answer.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/client-go/log"
)

func main() {
	configs := flag.String("configs", "", "file with the configurations that cases name: a JSON object of name to {configuration: KubeVirt's spec.configuration}")
	definitions := flag.Bool("definitions", false, "answer nothing: print the CustomResourceDefinitions of this version as a JSON list")
	flag.Parse()
	// KubeVirt's log is written to standard error, which nobody reads here.
	log.InitializeLogging("record")
	log.Log.SetIOWriter(io.Discard)
	run := func() error { return answerLines(*configs, os.Stdin, os.Stdout) }
	if *definitions {
		run = func() error { return writeDefinitions(os.Stdout) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

// answerLines answers every case of in.
func answerLines(configs string, in io.Reader, out io.Writer) error {
	configurations, err := readConfigurations(configs)
	if err != nil {
		return err
	}
	server, err := newServer()
	if err != nil {
		return err
	}
	defer server.Close()
	lines, encoder := bufio.NewScanner(in), json.NewEncoder(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var c Case
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return err
		}
		configuration, known := configurations[c.Config]
		if !known {
			return fmt.Errorf("case %s names configuration '%s', which does not exist", c.ID, c.Config)
		}
		answer, err := server.answer(c, configuration)
		if err != nil {
			return fmt.Errorf("case %s: %w", c.ID, err)
		}
		if err := encoder.Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

// readConfigurations reads the file of the flag -configs. A name that begins with '_' is no configuration.
func readConfigurations(path string) (map[string]*v1.KubeVirtConfiguration, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var named map[string]json.RawMessage
	if err := json.Unmarshal(raw, &named); err != nil {
		return nil, err
	}
	configurations := map[string]*v1.KubeVirtConfiguration{}
	for name, raw := range named {
		var wrapped struct{ Configuration v1.KubeVirtConfiguration }
		if name[:1] == "_" {
			continue
		}
		if err := json.Unmarshal(raw, &wrapped); err != nil {
			return nil, fmt.Errorf("configuration '%s': %w", name, err)
		}
		configurations[name] = &wrapped.Configuration
	}
	return configurations, nil
}
