// Command conformance replays recorded answers of the reference implementation and prints, for each corpus, how many Kiln
// agrees with: 'NAME: agree/total (percent), N listed deviations, N unexplained'. It exits with 1 when any is unexplained.
package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// outcome is what became of one case.
type outcome struct {
	agrees bool
	// listed names the deviation of docs/reference/deviations.md that explains a difference.
	listed string
	// what differs, for the developer.
	difference string
}

// replay judges one case with the configuration that it names.
type replay func(c record, cluster config.Cluster) outcome

// suite is one corpus and how it is replayed.
type suite struct {
	name string
	run  replay
}

// corpora in the order in which they are printed.
var corpora = []suite{
	{"apply", replayApply},
	{"mutate", replayMutate},
	{"validate-vmi", replayVMI},
	{"validate-vm", replayVM},
	{"convert", replayConvert},
}

// Exit codes: 0 for no unexplained case, 1 for some, 2 for a fault of the run such as a missing corpus.
func main() {
	corpus := flag.String("corpus", "", "folder with the recorded answers; empty for the answers of each version that are kept beside this program")
	only := flag.String("only", "", "name of one corpus")
	report := flag.Bool("report", false, "exit with 0 whatever is unexplained")
	accepted := flag.String("accepted", "", "replay nothing: write the explicit guests that Kiln accepts into this file, one JSON object a line")
	var version config.Version
	flag.TextVar(&version, "kubevirt", config.Newest, "version of KubeVirt whose answers these are, such as v1.8.2")
	verbose := flag.Int("v", 0, "print up to N kinds of unexplained cases of each corpus, and which deviations are listed")
	flag.Parse()
	if *accepted != "" {
		if err := writeFile(*accepted, *corpus); err != nil {
			fmt.Fprintln(os.Stderr, "conformance:", err)
			os.Exit(2)
		}
		return
	}
	replayed := func() (int, error) { return replayCorpora(*corpus, *only, version, *verbose) }
	if *corpus == "" {
		replayed = func() (int, error) { return replayVersions(kept, *verbose) }
	}
	unexplained, err := replayed()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(2)
	}
	if unexplained > 0 && !*report {
		os.Exit(1)
	}
}

// writeFile writes the accepted guests of a corpus into a file, which it overwrites.
func writeFile(path, corpus string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(writeAccepted(corpus, file), file.Close())
}

// suiteNamed returns the corpus of a name.
func suiteNamed(name string) (suite, bool) {
	i := slices.IndexFunc(corpora, func(s suite) bool { return s.name == name })
	if i < 0 {
		return suite{}, false
	}
	return corpora[i], true
}

// replayCorpora replays the corpora of a folder, or only one of them, and prints a line for each. It returns the number of unexplained cases of all. It fails
// for a corpus, a configuration or a schema that cannot be read, and must run in the root of the repository, where the schemas are.
func replayCorpora(dir, only string, version config.Version, verbose int) (unexplained int, err error) {
	clusters, err := readConfigs(filepath.Join(dir, "configs.json"), version)
	if err != nil {
		return 0, err
	}
	for _, c := range corpora {
		if only != "" && only != c.name {
			continue
		}
		cases, err := readCases(filepath.Join(dir, c.name+".jsonl.gz"))
		if errors.Is(err, fs.ErrNotExist) && version != config.Newest {
			continue // command versions records no conversions
		}
		if err == nil {
			err = prepare(cases, version)
		}
		if err != nil {
			return 0, err
		}
		counted := c.tallyCases(cases, clusters)
		counted.printCounts(c.name, verbose)
		unexplained += counted.unexplained
	}
	return unexplained, nil
}

// prepare gives cases their schemas, and drops the fields that the API server of this version drops before a webhook sees the object.
func prepare(cases []record, version config.Version) error {
	guests, err := readSchema("virtualmachineinstances")
	if err != nil {
		return err
	}
	machines, err := readSchema("virtualmachines")
	if err != nil {
		return err
	}
	for i := range cases {
		c := &cases[i]
		// A case has a VM or a VMI, and the API server would judge it by the schema of its kind.
		if c.schema = guests; c.VM != nil {
			c.schema = machines
		}
		c.version = version
		for _, raw := range []*json.RawMessage{&c.VM, &c.VMI, &c.Old} {
			if *raw, err = withoutFields(*raw, c.Pruned); err != nil {
				return fmt.Errorf("case %s: %w", c.ID, err)
			}
		}
	}
	return nil
}

// tally is what the cases of a corpus came to.
type tally struct {
	total, agreed, unexplained int
	// listed counts deviations, kinds what is unexplained; each kind has an example.
	listed, kinds map[string]int
	example       map[string]string
}

// tallyCases replays the cases one by one. Differences that vary only in numbers and names count as one kind, with the last such case as its example.
func (s suite) tallyCases(cases []record, clusters map[string]config.Cluster) tally {
	t := tally{total: len(cases), listed: map[string]int{}, kinds: map[string]int{}, example: map[string]string{}}
	for _, c := range cases {
		switch o := replayGuarded(s.run, c, clusterOf(s.name, c, clusters)); {
		case o.agrees:
			t.agreed++
		case o.listed != "":
			t.listed[o.listed]++
		default:
			t.unexplained++
			kind := variable.ReplaceAllString(o.difference, "#")
			t.kinds[kind]++
			t.example[kind] = c.ID + " " + o.difference
		}
	}
	return t
}

// printCounts prints the counts, and up to verbose kinds of what is unexplained, each with one of its cases.
func (t tally) printCounts(name string, verbose int) {
	fmt.Printf("%s: %d/%d (%.1f %%), %d listed deviations, %d unexplained\n", name, t.agreed, t.total, 100*float64(t.agreed)/float64(max(t.total, 1)),
		t.total-t.agreed-t.unexplained, t.unexplained)
	if verbose == 0 {
		return
	}
	for _, kind := range sortedByCount(t.listed) {
		fmt.Printf("  %5d listed: %s\n", t.listed[kind], kind)
	}
	for i, kind := range sortedByCount(t.kinds) {
		if i == verbose {
			fmt.Printf("        and %d more kinds\n", len(t.kinds)-verbose)
			break
		}
		fmt.Printf("  %5d %.300s\n", t.kinds[kind], t.example[kind])
	}
}

// variable parts of a difference, which do not make another kind of it.
var variable = regexp.MustCompile(`[0-9]+|'[^']*'|"[^"]*"|\(Kiln: .*|want .*|\[[0-9]+\]`)

// sortedByCount returns the keys with the largest counts first; equal counts are in the order of the keys, so that the output is the same in every run.
func sortedByCount(counts map[string]int) []string {
	var keys []string
	for key := range counts {
		keys = append(keys, key)
	}
	sort.Slice(keys, func(i, j int) bool {
		return counts[keys[i]] > counts[keys[j]] || counts[keys[i]] == counts[keys[j]] && keys[i] < keys[j]
	})
	return keys
}

// replayGuarded turns a panic into a difference: it is never an agreement.
func replayGuarded(judge replay, c record, cluster config.Cluster) (o outcome) {
	defer func() {
		if r := recover(); r != nil {
			o = outcome{difference: fmt.Sprintf("panic: %v", r)}
		}
	}()
	return judge(c, cluster)
}

// readCases reads a file of gzip with one case in JSON on each line. One line that cannot be read fails the run: a case must not be lost in silence.
func readCases(path string) ([]record, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	lines := bufio.NewScanner(unzipped)
	// A Scanner fails for lines of more than 64 KiB unless it is given a larger limit.
	lines.Buffer(nil, 16<<20)
	var cases []record
	for lines.Scan() {
		var c record
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		cases = append(cases, c)
	}
	return cases, lines.Err()
}

// readConfigs reads the configurations that cases name: a JSON object of KubeVirt objects' 'configuration' by name. '_gates' is not a configuration, but the
// list of feature gates.
func readConfigs(path string, version config.Version) (map[string]config.Cluster, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var named map[string]json.RawMessage
	if err := json.Unmarshal(raw, &named); err != nil {
		return nil, err
	}
	clusters := map[string]config.Cluster{}
	for name, raw := range named {
		if strings.HasPrefix(name, "_") {
			continue
		}
		var wrapped struct{ Configuration v1.KubeVirtConfiguration }
		if err := json.Unmarshal(raw, &wrapped); err != nil {
			return nil, fmt.Errorf("configuration '%s': %w", name, err)
		}
		// Kiln refuses some configurations; their cases then count as they come out.
		clusters[name], _ = version.FromKubeVirt(wrapped.Configuration)
	}
	return clusters, nil
}
