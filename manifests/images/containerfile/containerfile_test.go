package containerfile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/manifests/images/archive"
)

const stages = `FROM golang AS build
RUN go build
FROM scratch
ARG VERSION=devel
COPY --from=build /out/x /x
ENV A="b"
LABEL v="$VERSION"
USER 1:2
ENTRYPOINT ["/x"]
`

// TestRead: only the last stage counts, and nothing of it is lost without a word.
func TestRead(t *testing.T) {
	t.Parallel()
	values := strings.NewReplacer("$VERSION", "v1")
	got, err := Read(stages, values)
	want := Final{Copies: []string{"/x"},
		Config: archive.Config{Entrypoint: []string{"/x"}, User: "1:2", Env: []string{"A=b"}, Labels: map[string]string{"v": "v1"}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	for wrong, message := range map[string]string{
		"FROM debian\n":            "not built from scratch",
		stages + "RUN rm /x\n":     "'RUN rm /x' has no counterpart",
		stages + "ENTRYPOINT /x\n": "invalid character",
		stages + "VOLUME /x\n":     "'VOLUME /x' has no counterpart",
	} {
		if _, err := Read(wrong, values); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%v, want '%s'", err, message)
		}
	}
}
