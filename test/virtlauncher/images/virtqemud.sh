#!/bin/sh
# virtqemud for an image of Debian 12, which has only libvirtd: the same daemon with more drivers, another socket and another file of settings. virt-launcher
# and virt-handler look for the socket of virtqemud, and virt-handler for a process of that name.
set -e
mkdir -p /var/run/libvirt
ln -sfn libvirt-sock /var/run/libvirt/virtqemud-sock
exec /usr/lib/libvirt/virtqemud -f /etc/libvirt/virtqemud.conf "$@"
