package node

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// lan is the way to the other nodes: a bridge in the first node, one end of a veth pair in others, whose other end is a port of the bridge.
const lan = "lan"

// connectNode creates the network in the namespace of process pid. It works from outside, so nothing of it ever appears in the machine's own network namespace.
// pid is process 1 of a node, and first is process 1 of the first node, or 0 if pid is the first node.
func connectNode(number, pid, first int) error {
	own, err := netns.GetFromPid(pid)
	if err != nil {
		return err
	}
	defer own.Close()
	handle, err := netlink.NewHandleAt(own)
	if err != nil {
		return err
	}
	defer handle.Close()
	if first == 0 {
		err = handle.LinkAdd(&netlink.Bridge{LinkAttrs: linkNamed(lan)})
	} else {
		err = plugCable(handle, number, first)
	}
	if err != nil {
		return fmt.Errorf("adding the interface '%s': %w", lan, err)
	}
	return setAddresses(handle, number)
}

func linkNamed(name string) netlink.LinkAttrs {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = name
	return attributes
}

// plugCable makes a veth pair from the handle's namespace to the bridge of the first node.
func plugCable(handle *netlink.Handle, number, first int) error {
	ns, err := netns.GetFromPid(first)
	if err != nil {
		return err
	}
	defer ns.Close()
	there, err := netlink.NewHandleAt(ns)
	if err != nil {
		return err
	}
	defer there.Close()
	if err := handle.LinkAdd(&netlink.Veth{LinkAttrs: linkNamed(lan), PeerName: bridgePort(number), PeerNamespace: netlink.NsFd(int(ns))}); err != nil {
		return err
	}
	bridge, err := there.LinkByName(lan)
	if err != nil {
		return err
	}
	end, err := there.LinkByName(bridgePort(number))
	if err != nil {
		return err
	}
	return errors.Join(there.LinkSetMaster(end, bridge), there.LinkSetUp(end))
}

// bridgePort returns the bridge's end of a node's veth pair.
func bridgePort(number int) string { return fmt.Sprintf("node%d", number) }

// unplugCable removes a node's veth pair, if the kernel has not.
func unplugCable(number, first int) error {
	err := withPort(number, first, (*netlink.Handle).LinkDel)
	if errors.As(err, new(netlink.LinkNotFoundError)) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// setCarrier sets the bridge's end of a node's veth pair up or down. The node's own end loses its carrier, and keeps its addresses and routes.
func setCarrier(number, first int, up bool) error {
	if up {
		return withPort(number, first, (*netlink.Handle).LinkSetUp)
	}
	return withPort(number, first, (*netlink.Handle).LinkSetDown)
}

// withPort does something with the bridge's end of a node's veth pair.
func withPort(number, first int, do func(*netlink.Handle, netlink.Link) error) error {
	ns, err := netns.GetFromPid(first)
	if err != nil {
		return err
	}
	defer ns.Close()
	handle, err := netlink.NewHandleAt(ns)
	if err != nil {
		return err
	}
	defer handle.Close()
	link, err := handle.LinkByName(bridgePort(number))
	if err != nil {
		return err
	}
	return do(handle, link)
}

// setAddresses gives the interfaces theirs, and says that all other nodes' pods are neighbours: each node answers for its own, see
// proxyARP. So no node needs to be told of another. kubelet and kube-proxy also want a default route, behind which there is nothing.
func setAddresses(handle *netlink.Handle, number int) error {
	loopback, err := handle.LinkByName("lo")
	if err != nil {
		return err
	}
	link, err := handle.LinkByName(lan)
	if err != nil {
		return err
	}
	_, pods, err := net.ParseCIDR(podRange)
	if err != nil {
		return err
	}
	own := &netlink.Addr{IPNet: &net.IPNet{IP: nodeAddress(number), Mask: net.CIDRMask(24, 32)}}
	all := &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}
	return errors.Join(handle.LinkSetUp(loopback), handle.LinkSetUp(link), handle.AddrAdd(link, own),
		handle.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: pods, Scope: netlink.SCOPE_LINK}),
		handle.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: all, Scope: netlink.SCOPE_LINK}))
}

// Switches of the node's network namespace, see sysctl(8). With proxyARP it answers for the addresses of its pods.
const (
	forwarding = "/proc/sys/net/ipv4/ip_forward"
	proxyARP   = "/proc/sys/net/ipv4/conf/" + lan + "/proxy_arp"
)
