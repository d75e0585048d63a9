// Command versions compares a version of KubeVirt with the one that Kiln is built with: fields, feature gates, labels and annotations, and what virt-api's
// webhooks make of generated cases: verdicts and defaults. It builds test/kubevirt/record with the module of that version, so that KubeVirt's own code answers.
//
//	go run ./test/versions -version v1.8.2                       prints what changed
//	go run ./test/versions -version v1.8.2 -corpus ../shared/conformance
//	                                                             also records the answers to the cases of a folder, below bin/kubevirt/v1.8.2/answers
//	go run ./test/versions -record -version v1.8.2               writes the answers that test/conformance replays
//	go run ./test/versions -generate -seed 2                     makes new cases; then each version must be recorded, the newest first
package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
)

// newest is the version of KubeVirt in go.mod of test/kubevirt.
const newest = "v1.9.0"

// kept is the folder of the cases and answers that test/conformance replays.
const kept = "test/conformance/testdata"

func main() {
	var o options
	flag.StringVar(&o.version, "version", "", "version of KubeVirt to compare with "+newest)
	flag.StringVar(&o.corpus, "corpus", "",
		"folder with further cases; their answers are written below bin/kubevirt/VERSION/answers")
	flag.BoolVar(&o.record, "record", false, "write the answers of the version into "+kept)
	flag.BoolVar(&o.generate, "generate", false, "write new cases into "+kept)
	flag.IntVar(&o.count, "n", 3000, "number of cases, with -generate")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the cases, with -generate")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "versions:", err)
		os.Exit(1)
	}
}

type options struct {
	version, corpus  string
	record, generate bool
	count            int
	seed             uint64
}

func (o options) run(ctx context.Context) error {
	switch {
	case o.generate:
		return writeCases(o.count, o.seed)
	case o.version == "":
		return errors.New("-version names a version of KubeVirt, such as v1.8.2")
	}
	built, err := build(ctx, o.version)
	if err != nil {
		return err
	}
	answers, err := built.answerKept(ctx)
	if err != nil {
		return err
	}
	if o.record {
		return writeAnswers(o.version, answers)
	}
	if o.corpus != "" {
		if err := built.answerCorpus(ctx, o.corpus); err != nil {
			return err
		}
	}
	return printChanges(ctx, os.Stdout, built, answers)
}

// writeCases generates the cases and the configurations that they name.
func writeCases(n int, seed uint64) error {
	g, err := newGenerator(".", seed)
	if err != nil {
		return err
	}
	cases, err := g.cases(n)
	if err != nil {
		return err
	}
	lines := make([]any, len(cases))
	for i := range cases {
		lines[i] = cases[i]
	}
	return errors.Join(writeLines(filepath.Join(kept, "cases.jsonl.gz"), lines), writeConfigurations(filepath.Join(kept, "configs.json")))
}

// writeAnswers writes the answers of a version. For older versions these are the answers that differ from the answers of the newest.
func writeAnswers(version string, answers map[string]answer) error {
	var known map[string]answer
	if version != newest {
		var err error
		if known, err = readAnswers(filepath.Join(kept, newest+".jsonl.gz")); err != nil {
			return err
		}
	}
	var lines []any
	for _, id := range sortedKeys(answers) {
		if was, has := known[id]; !has || !was.equals(answers[id]) {
			lines = append(lines, answers[id])
		}
	}
	return writeLines(filepath.Join(kept, version+".jsonl.gz"), lines)
}

// writeLines writes values as JSON, one a line, compressed.
func writeLines(path string, lines []any) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	zipped, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(zipped)
	for _, line := range lines {
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	return zipped.Close()
}
