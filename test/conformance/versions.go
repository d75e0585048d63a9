package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
)

// kept is the folder with the answers of each version to the cases of command versions: cases.jsonl.gz, configs.json, and VERSION.jsonl.gz. The file of the
// newest version has all answers, the other files have the answers that differ from these.
const kept = "test/conformance/testdata"

// replayVersions replays the answers of all versions, and prints a line for each corpus and version. It returns the number of unexplained cases of all.
func replayVersions(dir string, verbose int) (unexplained int, err error) {
	for _, release := range releases {
		tallies, err := tallyVersion(dir, release)
		if err != nil {
			return unexplained, err
		}
		for _, s := range corpora {
			if counted, has := tallies[s.name]; has {
				counted.printCounts(release+" "+s.name, verbose)
				unexplained += counted.unexplained
			}
		}
	}
	return unexplained, nil
}

// releases are the releases of KubeVirt whose answers are kept, the newest last.
var releases = []string{"v1.7.0", "v1.8.2", "v1.9.0"}

// tallyVersion replays the answers of a release, by corpus.
func tallyVersion(dir, release string) (map[string]tally, error) {
	version, err := config.ParseVersion(release)
	if err != nil {
		return nil, err
	}
	clusters, err := readConfigs(filepath.Join(dir, "configs.json"), version)
	if err != nil {
		return nil, err
	}
	cases, err := readVersion(dir, release)
	if err != nil {
		return nil, err
	}
	if err := prepare(cases, version); err != nil {
		return nil, err
	}
	bySuite := map[string][]record{}
	for _, c := range cases {
		bySuite[c.Suite] = append(bySuite[c.Suite], c)
	}
	tallies := map[string]tally{}
	for name, cases := range bySuite {
		s, known := suiteNamed(name)
		if !known {
			return nil, fmt.Errorf("there is no corpus '%s'", name)
		}
		tallies[name] = s.tallyCases(cases, clusters)
	}
	return tallies, nil
}

// readVersion returns the cases with the answers of a release.
func readVersion(dir, release string) ([]record, error) {
	cases, err := readCases(filepath.Join(dir, "cases.jsonl.gz"))
	if err != nil {
		return nil, err
	}
	answers := map[string]record{}
	for _, file := range []string{releases[len(releases)-1], release} {
		some, err := readCases(filepath.Join(dir, file+".jsonl.gz"))
		if err != nil {
			return nil, err
		}
		for _, answer := range some {
			answers[answer.ID] = answer
		}
	}
	for i := range cases {
		answer, has := answers[cases[i].ID]
		if !has {
			return nil, fmt.Errorf("case %s has no answer", cases[i].ID)
		}
		cases[i].Expect, cases[i].Pruned = answer.Expect, answer.Pruned
	}
	return cases, nil
}

// withoutFields returns an object without some fields. A path of a field that the object does not have is ignored: an old object has fewer.
func withoutFields(raw json.RawMessage, paths []string) (json.RawMessage, error) {
	if len(paths) == 0 || len(raw) == 0 {
		return raw, nil
	}
	object, err := objectOf(raw)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		var at any = object
		segments := pathSegments(path)
		for _, segment := range segments[:len(segments)-1] {
			at, _ = stepInto(at, segment)
		}
		if holder, is := at.(map[string]any); is {
			delete(holder, strings.Trim(segments[len(segments)-1], "[]"))
		}
	}
	return json.Marshal(object)
}
