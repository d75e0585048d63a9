package validate

import (
	"net/netip"
	"strings"

	"github.com/kilnvm/kiln/pkg/config"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// Fields: dnsPolicy, dnsConfig.
// The limits are the limits of pods. For searches they are the older ones (6 domains, 256 characters), as in KubeVirt.
// KubeVirt has them in validateDNSPolicy and validatePodDNSConfig, which it copied from Kubernetes.

var dnsRules = []guestRule{
	{dns, []Rule{
		{Name: "placement/dns-policy"},
		{Name: "placement/dns-config"},
		{Name: "placement/dns-nameservers"},
		{Name: "placement/dns-nameserver"},
		{Name: "placement/dns-searches"},
		{Name: "placement/dns-searches-length"},
		{Name: "placement/dns-search"},
		{Name: "placement/dns-option"},
	}},
}

// The limits come from resolv.conf: glibc reads three nameservers and, before version 2.26, six domains of 256 characters in all.
const (
	maxNameservers = 3
	maxSearches    = 6
	maxSearchChars = 256
)

// dnsPolicies are the policies of pods. An empty policy is legal, and means ClusterFirst to Kubernetes.
var dnsPolicies = []corev1.DNSPolicy{corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet, corev1.DNSDefault, corev1.DNSNone}

// dns requires a nameserver with policy None, because nothing else gives the pod one.
func dns(spec *v1.VirtualMachineInstanceSpec, _ config.Limits, path *field.Path) (errs field.ErrorList) {
	if spec.DNSPolicy != "" {
		errs = append(errs, supported(path.Child("dnsPolicy"), spec.DNSPolicy, dnsPolicies...).WithOrigin("placement/dns-policy")...)
	}
	at := path.Child("dnsConfig")
	if spec.DNSConfig == nil {
		if spec.DNSPolicy == corev1.DNSNone {
			errs = append(errs, field.Required(at, "dnsPolicy 'None' needs at least one nameserver").WithOrigin("placement/dns-config"))
		}
		return errs
	}
	if spec.DNSPolicy == corev1.DNSNone && len(spec.DNSConfig.Nameservers) == 0 {
		errs = append(errs, field.Required(at.Child("nameservers"), "dnsPolicy 'None' needs at least one nameserver").WithOrigin("placement/dns-config"))
	}
	return append(errs, dnsConfig(spec.DNSConfig, at)...)
}

// dnsConfig applies to every policy. The characters of searches are counted as they stand in resolv.conf: joined by spaces.
func dnsConfig(dns *corev1.PodDNSConfig, path *field.Path) (errs field.ErrorList) {
	servers, searches := path.Child("nameservers"), path.Child("searches")
	if len(dns.Nameservers) > maxNameservers {
		errs = append(errs, field.TooMany(servers, len(dns.Nameservers), maxNameservers).WithOrigin("placement/dns-nameservers"))
	}
	for i, server := range dns.Nameservers {
		if _, err := netip.ParseAddr(server); err != nil {
			errs = append(errs, field.Invalid(servers.Index(i), server, "must be an IP address").WithOrigin("placement/dns-nameserver"))
		}
	}
	if len(dns.Searches) > maxSearches {
		errs = append(errs, field.TooMany(searches, len(dns.Searches), maxSearches).WithOrigin("placement/dns-searches"))
	}
	if len(strings.Join(dns.Searches, " ")) > maxSearchChars {
		errs = append(errs, field.TooLong(searches, "", maxSearchChars).WithOrigin("placement/dns-searches-length"))
	}
	for i, search := range dns.Searches {
		errs = append(errs, named(searches.Index(i), search, validation.IsDNS1123Subdomain).WithOrigin("placement/dns-search")...)
	}
	for i, option := range dns.Options {
		if option.Name == "" {
			errs = append(errs, field.Required(path.Child("options").Index(i).Child("name"), "name the option").WithOrigin("placement/dns-option"))
		}
	}
	return errs
}
