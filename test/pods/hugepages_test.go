package pods

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// pagesOfTests is the number of huge pages of 2 MiB that TestTooLarge needs.
const pagesOfTests = 64

const pool = "/proc/sys/vm/nr_hugepages"

// havePages reports that the kernel has set aside the huge pages of these tests.
var havePages bool

// reservePages has the kernel set aside huge pages, before the kubelets of the nodes count them. A kernel without room for them, or without huge pages, is no
// error: then havePages stays false. The function that it returns gives the pages back.
func reservePages() (giveBack func() error, err error) {
	before, err := readPool()
	if errors.Is(err, os.ErrNotExist) {
		return func() error { return nil }, nil
	}
	if err == nil {
		err = writePool(before + pagesOfTests)
	}
	if err != nil {
		return nil, err
	}
	after, err := readPool()
	havePages = err == nil && after >= before+pagesOfTests
	return func() error {
		now, err := readPool() // other tests may have set aside pages, too
		if err != nil {
			return err
		}
		return writePool(max(0, now-(after-before)))
	}, err
}

func readPool() (int, error) {
	text, err := os.ReadFile(pool)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

func writePool(pages int) error { return os.WriteFile(pool, []byte(strconv.Itoa(pages)), 0o644) }

// placesOfPages are the counts of pages by NUMA node in a line of numa_maps, see numa(7).
var placesOfPages = regexp.MustCompile(` N(\d+)=(\d+)`)

// hugePages returns how many huge pages of each NUMA node a process uses.
func hugePages(pid int) (map[string]int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/numa_maps", pid))
	if err != nil {
		return nil, err
	}
	pages := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, " huge ") {
			continue
		}
		for _, place := range placesOfPages.FindAllStringSubmatch(line, -1) {
			n, err := strconv.Atoi(place[2])
			if err != nil {
				return nil, err
			}
			pages[place[1]] += n
		}
	}
	return pages, nil
}
