// Command conformance replays recorded answers of the reference implementation and prints, for each corpus, how many Kiln
// agrees with: 'NAME: agree/total (percent), N listed deviations, N unexplained'. It exits with 1 when any is unexplained.
package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	v1 "kubevirt.io/api/core/v1"
)

// outcome is what became of one case.
type outcome struct {
	agrees bool
	// listed names the deviation of docs/deviations.md that explains a difference.
	listed string
	// what differs, for the developer.
	difference string
}

// replay judges one case with the configuration that it names.
type replay func(c record, cluster config.Cluster) outcome

// corpora in the order in which they are printed.
var corpora = []struct {
	name string
	run  replay
}{
	{"apply", replayApply},
	{"mutate", replayMutate},
	{"validate-vmi", replayVMI},
	{"validate-vm", replayVM},
	{"convert", replayConvert},
}

func main() {
	corpus := flag.String("corpus", "", "folder with the recorded answers")
	only := flag.String("only", "", "name of one corpus")
	verbose := flag.Int("v", 0, "print up to N unexplained cases of each corpus")
	flag.Parse()
	unexplained, err := run(*corpus, *only, *verbose)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(2)
	}
	if unexplained > 0 {
		os.Exit(1)
	}
}

func run(dir, only string, verbose int) (unexplained int, err error) {
	clusters, err := readConfigs(filepath.Join(dir, "configs.json"))
	if err != nil {
		return 0, err
	}
	for _, c := range corpora {
		if only != "" && only != c.name {
			continue
		}
		cases, err := readCases(filepath.Join(dir, c.name+".jsonl.gz"))
		if err != nil {
			return 0, err
		}
		unexplained += tally(c.name, cases, clusters, c.run, verbose)
	}
	return unexplained, nil
}

func tally(name string, cases []record, clusters map[string]config.Cluster, judge replay, verbose int) int {
	agreed, listed, kinds := 0, 0, map[string]int{}
	unexplained := 0
	for _, c := range cases {
		cluster, known := clusters[c.Config]
		if !known {
			cluster = clusters["default"]
		}
		switch o := guarded(judge, c, cluster); {
		case o.agrees:
			agreed++
		case o.listed != "":
			listed++
		default:
			unexplained++
			kinds[strings.SplitN(o.difference, ":", 2)[0]]++
			if unexplained <= verbose {
				fmt.Printf("  %s: %s\n", c.ID, o.difference)
			}
		}
	}
	fmt.Printf("%s: %d/%d (%.1f %%), %d listed deviations, %d unexplained\n", name, agreed, len(cases), 100*float64(agreed)/float64(len(cases)), listed, unexplained)
	if verbose > 0 {
		for _, kind := range sortedByCount(kinds) {
			fmt.Printf("  %5d %s\n", kinds[kind], kind)
		}
	}
	return unexplained
}

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

// guarded turns a panic into a difference: it is never an agreement.
func guarded(judge replay, c record, cluster config.Cluster) (o outcome) {
	defer func() {
		if r := recover(); r != nil {
			o = outcome{difference: fmt.Sprintf("panic: %v", r)}
		}
	}()
	return judge(c, cluster)
}

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

func readConfigs(path string) (map[string]config.Cluster, error) {
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
		// Errors are those of configurations that Kiln refuses; its cases then count as they come out.
		clusters[name], _ = config.FromKubeVirt(wrapped.Configuration)
	}
	return clusters, nil
}
