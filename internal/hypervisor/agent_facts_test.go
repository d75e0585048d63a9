package hypervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	rpc "github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"
	"github.com/kilnvm/kiln/pkg/domain/backend"
	"github.com/kilnvm/kiln/test/explicit"
	"libvirt.org/go/libvirtxml"
)

// TestAgentsAnswers: what cannot be read, or is too long, leaves a fact out.
func TestAgentsAnswers(t *testing.T) {
	t.Parallel()
	system := `{"return": {"id": "debian", "name": "Debian GNU/Linux", "pretty-name": "Debian GNU/Linux 13 (trixie)", "version": "13 (trixie)", "version-id": "13",
"kernel-release": "6.12.0-amd64", "kernel-version": "#1 SMP", "machine": "x86_64", "variant": "server"}}`
	debian := AgentOS{ID: "debian", Name: "Debian GNU/Linux", PrettyName: "Debian GNU/Linux 13 (trixie)", Version: "13 (trixie)", VersionID: "13",
		KernelRelease: "6.12.0-amd64", KernelVersion: "#1 SMP", Machine: "x86_64"}
	cards := `{"return": [{"name": "lo", "ip-addresses": [{"ip-address": "127.0.0.1", "ip-address-type": "ipv4", "prefix": 8}],
"hardware-address": "00:00:00:00:00:00"},
{"name": "eth0", "hardware-address": "52:54:00:ab:cd:01", "statistics": {"tx-packets": 1}}, null]}`
	for _, c := range []struct {
		why   string
		reply rpc.OptString
		want  AgentFacts
	}{
		{"a system", rpc.OptString{system}, AgentFacts{OS: debian}},
		{"nothing", nil, AgentFacts{}}, {"no JSON", rpc.OptString{"{"}, AgentFacts{}}, {"no answer", rpc.OptString{`{}`}, AgentFacts{}},
		{"null", rpc.OptString{`{"return": null}`}, AgentFacts{}}, {"another type", rpc.OptString{`{"return": {"id": 7}}`}, AgentFacts{}},
		{"two answers", rpc.OptString{system, system}, AgentFacts{OS: debian}},
		{"too long", rpc.OptString{`{"return": {"id": "` + strings.Repeat("a", longestAnswer) + `"}}`}, AgentFacts{}},
		{"too deep", rpc.OptString{`{"return": ` + strings.Repeat("[", longestAnswer/2) + `}`}, AgentFacts{}},
	} {
		got := AgentFacts{}
		readAgentReply(c.reply, &got.OS)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.why, diff)
		}
	}
	got := AgentFacts{}
	if readAgentReply(rpc.OptString{cards}, &got.Interfaces); len(got.Interfaces) != 3 || got.Interfaces[0].IPs[0].Address != "127.0.0.1" ||
		got.Interfaces[1].MAC != "52:54:00:ab:cd:01" {
		t.Errorf("the interfaces are %+v", got.Interfaces)
	}
}

// TestUnanswered: an agent that refuses a command answers.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	answer := func(code rpc.ErrorNumber) error { return fmt.Errorf("asked: %w", rpc.Error{Code: uint32(code)}) }
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want bool
	}{
		{t.Context(), nil, false}, {t.Context(), answer(rpc.ErrInternalError), false}, {t.Context(), answer(rpc.ErrAgentUnresponsive), true},
		{t.Context(), answer(rpc.ErrNoDomain), true}, {over, answer(rpc.ErrInternalError), true}, {over, nil, false},
		{t.Context(), errors.New("libvirt does not answer"), true},
	} {
		if got := isUnanswered(c.ctx, c.err); got != c.want {
			t.Errorf("%v: unanswered is %t", c.err, got)
		}
	}
}

// TestChannelOfAgent: each VMI has the channel.
func TestChannelOfAgent(t *testing.T) {
	t.Parallel()
	vmi := explicit.WithClaim(t)
	documents := explicit.Documents(t, vmi, backend.AssumedBindings(vmi))
	documents.Domain.Devices.Interfaces = append(documents.Domain.Devices.Interfaces,
		libvirtxml.DomainInterface{MAC: &libvirtxml.DomainInterfaceMAC{Address: "52:54:00:AB:CD:01"}}, libvirtxml.DomainInterface{})
	guest := Guest{Documents: documents}
	if macs, has := guest.Agent(); !has || !slices.Contains(macs, "52:54:00:ab:cd:01") {
		t.Errorf("the channel is there: %t, the cards are %q", has, macs)
	}
	documents.Domain.Devices.Interfaces = nil
	for state, want := range map[string]bool{"": false, "disconnected": false, "connected": true} {
		channelOf(documents.Domain).State = state
		text, err := documents.Domain.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := agentState(text); got != want || err != nil {
			t.Errorf("in state '%s' the agent is connected: %t, %v", state, got, err)
		}
	}
	documents.Domain.Devices.Channels = nil
	if _, has := guest.Agent(); has {
		t.Error("a domain without channels has one")
	}
	if _, has := (Guest{}).Agent(); has {
		t.Error("nothing has a channel")
	}
}
