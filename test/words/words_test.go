package words

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// changedOnly: lines that a branch does not change are counted and printed (go test -v). It goes when the whole tree is clean.
const changedOnly = true

// unjudged are files that only repeat what others contain, and the list itself, by the beginning of their names.
var unjudged = []string{"docs/reference/", "manifests/chart/kiln/README.md", "test/words/"}

// TestTree: no line that this branch adds contains a word of the list.
func TestTree(t *testing.T) {
	tracked := strings.Fields(git(t, "ls-files", "--cached", "*.go", "*.md"))
	untracked := strings.Fields(git(t, "ls-files", "--others", "--exclude-standard", "*.go", "*.md"))
	added := map[string][]bool{}
	if changedOnly {
		added = addedLines(t)
	}
	left := map[string]int{}
	for _, name := range slices.Concat(tracked, untracked) {
		content, err := os.ReadFile(filepath.Join("../..", name))
		if os.IsNotExist(err) || slices.ContainsFunc(unjudged, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue // a file that was removed is still in git's index
		}
		found, err := find(name, content)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, f := range found {
			lines := added[name]
			if !changedOnly || slices.Contains(untracked, name) || slices.Contains(lines[min(f.First, len(lines)):min(f.Last+1, len(lines))], true) {
				t.Errorf("%s:%d: '%s': %s", name, f.First, f.text, f.instead)
			} else {
				left[filepath.Dir(name)]++
			}
		}
	}
	t.Log(summary(left))
}

// addedLines returns, by the names of files, which lines differ from the commit at which this branch began. Index 0 is no line.
func addedLines(t *testing.T) map[string][]bool {
	t.Helper()
	base := ""
	for _, upstream := range []string{"@{upstream}", "origin/main", "origin/HEAD"} {
		if out, err := exec.Command("git", "merge-base", "HEAD", upstream).Output(); err == nil {
			base = strings.TrimSpace(string(out))
			break
		}
	}
	if base == "" {
		t.Skip("neither an upstream of this branch nor origin/main is known: which lines are new cannot be found out")
	}
	return parseDiff(git(t, "diff", "-U0", "--no-color", "--no-ext-diff", "--src-prefix=a/", "--dst-prefix=b/", base))
}

var hunk = regexp.MustCompile(`^@@ -\S+ \+(\d+)(?:,(\d+))? @@`)

// parseDiff reads a unified diff without context.
func parseDiff(diff string) map[string][]bool {
	added, name := map[string][]bool{}, ""
	for line := range strings.Lines(diff) {
		if file, is := strings.CutPrefix(line, "+++ b/"); is {
			name = strings.TrimSpace(file)
		}
		match := hunk.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		first, _ := strconv.Atoi(match[1])
		count := 1
		if match[2] != "" {
			count, _ = strconv.Atoi(match[2])
		}
		for n := first; n < first+count; n++ {
			for len(added[name]) <= n {
				added[name] = append(added[name], false)
			}
			added[name][n] = true
		}
	}
	return added
}

// git returns what a command of git prints at the root of the repository. The test is skipped where there is no git or no repository.
func git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("git %s: %v: which lines are new cannot be found out", strings.Join(args, " "), err)
	}
	return string(out)
}

// summary lists how many words are left in each directory, those with the most first.
func summary(left map[string]int) string {
	total := 0
	dirs := slices.Collect(maps.Keys(left))
	for _, dir := range dirs {
		total += left[dir]
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Or(left[b]-left[a], strings.Compare(a, b)) })
	var out strings.Builder
	fmt.Fprintf(&out, "%d words of the list are left:\n", total)
	for _, dir := range dirs {
		fmt.Fprintf(&out, "%6d %s\n", left[dir], dir)
	}
	return out.String()
}

func TestFind(t *testing.T) {
	for _, test := range []struct {
		name, file, content, want string
	}{
		{"a comment over two lines", "a.go", "package a\n\n// A is the name, and that\n// of others.\nvar A int\n", "3-4 that of"},
		{"a comment of another form", "a.go", "package a\n\n/* Whoever reads\nit */\n", "3-3 whoever"},
		{"a string", "a.go", "package a\n\nvar a = \"all\\nbut for x\"\n", "3-3 but for"},
		{"a text over lines", "a.go", "package a\n\nvar a = `x\nthere it is none`\n", "4-4 is none"},
		{"an import", "a.go", "package a\n\nimport _ \"but for\"\n", ""},
		{"names that are declared", "a.go", "package a\n\ntype whoseVM struct{ isTold, toldYou bool }\n\n" +
			"func HTTPRoom(seeing int) (unread int) {\n\tmute := 1\n\treturn mute\n}\n",
			"3-3 whose, 3-3 told, 3-3 told, 5-5 room, 5-5 seeing, 5-5 unread, 6-6 mute"},
		{"names of others", "a.go", "package a\n\nimport \"b\"\n\nvar a = b.Told(b.Room)\n", ""},
		{"no words of their own", "a.go", "package a\n\nvar mushroom, besaid, Commute int\n", ""},
		{"a function", "a.go", "package a\n\nfunc part() {}\n", "3-3 part"},
		{"a noun", "a.go", "package a\n\nfunc partOf(part int) {}\n", ""},
		{"a generated file", "a.go", "// Code generated by x. DO NOT EDIT.\n\npackage a\n\nvar told int\n", ""},
		{"a paragraph", "a.md", "# A\n\nIt is there, and so\ndoes it.\n\n- one but\n- for two\n", "3-4 so does"},
		{"code", "a.md", "A `but\nfor` b but for c.\n\n    but for\n\n```\nbut for\n```\n\nBut for d.\n", "2-2 but for, 10-10 but for"},
		{"another file", "a.yaml", "# but for\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			found, err := find(test.file, []byte(test.content))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range found {
				got = append(got, fmt.Sprintf("%d-%d %s", f.First, f.Last, f.text))
			}
			if got := strings.Join(got, ", "); got != test.want {
				t.Errorf("found '%s', want '%s'", got, test.want)
			}
		})
	}
}

func TestParseDiff(t *testing.T) {
	got := fmt.Sprint(parseDiff("diff --git a/x.go b/x.go\n--- a/x.go\n+++ b/x.go\n" +
		"@@ -1,2 +1 @@ func a\n-x\n-y\n+z\n@@ -5,0 +3,2 @@\n+a\n+b\n@@ -9 +8,0 @@\n-c\n"))
	if want := "map[x.go:[false true false true true]]"; got != want {
		t.Errorf("added lines are %s, want %s", got, want)
	}
}
