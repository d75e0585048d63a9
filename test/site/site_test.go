package site

import (
	"strings"
	"testing"
	"time"
)

// TestSite builds the site, which fails for dead links, and opens it in Chromium at the root of a server and below another path.
func TestSite(t *testing.T) {
	b := serve(t, built(t))
	var answer struct {
		Failed string
		Seen   []struct {
			Path, First, Followed, Opened, Light, Dark string
			Results                                    int
		}
	}
	b.run("site.html", []string{"/", deep, deep + "docs/how-to/policy.html"}, &answer, 5*time.Minute)
	if answer.Failed != "" || len(answer.Seen) != 3 {
		t.Fatalf("%+v", answer)
	}
	for i, s := range answer.Seen {
		below := "/"
		if i > 0 {
			below = deep
		}
		if s.Followed != below+"docs/reference/glossary.html" || !strings.HasPrefix(s.Opened, below+"docs/") || s.Results == 0 || s.Light == s.Dark {
			t.Errorf("%+v", s)
		}
	}
	if len(b.missing) > 0 {
		t.Errorf("the site asks for what it does not have: %v", b.missing)
	}
}
