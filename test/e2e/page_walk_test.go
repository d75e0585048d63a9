package e2e

import "github.com/kilnvm/kiln/test/page"

// walk runs the scripts of a page in the folder and calls after with each, as page.Walk.
func (h shop) walk(blocks []page.Block, after func(script string)) (scripts, shown int) {
	h.Helper()
	return page.Walk(h, blocks, h.run, after)
}
