package imported

// shop is a domain of a usual web shop: q35, EFI, disks on virtio and SATA, two network cards.
const shop = `<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>Web Shop_1</name>
  <uuid>7d1ef6a4-3f0b-4ac4-8a0e-6a2f6f1f0c11</uuid>
  <metadata><own:tool xmlns:own='http://tool.example/1'><own:note>front &amp; back</own:note></own:tool></metadata>
  <memory unit='MiB'>4096</memory>
  <vcpu placement='static' current='2'>4</vcpu>
  <os firmware='efi'>
    <type arch='x86_64' machine='pc-q35-7.2'>hvm</type>
    <firmware><feature enabled='no' name='secure-boot'/></firmware>
  </os>
  <features><acpi/><apic/><hyperv mode='custom'><relaxed state='on'/><spinlocks state='on' retries='8191'/></hyperv></features>
  <cpu mode='custom'><model>Westmere</model><topology sockets='2' dies='1' cores='2' threads='1'/><feature policy='require' name='aes'/></cpu>
  <clock offset='utc'><timer name='rtc' tickpolicy='catchup'/><timer name='hpet' present='no'/></clock>
  <devices>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2' cache='none' io='native'/>
      <source file='/images/shop.qcow2'/>
      <target dev='vda' bus='virtio'/>
      <address type='pci' domain='0x0000' bus='0x04' slot='0x00' function='0x0'/>
    </disk>
    <disk type='block' device='disk'>
      <source dev='/dev/vg/data'/><target dev='sda' bus='sata'/><serial>DATA-7</serial>
      <address type='drive' controller='0' bus='0' target='0' unit='0'/>
    </disk>
    <disk type='file' device='cdrom'><target dev='sdb' bus='sata'/><readonly/></disk>
    <disk type='file' device='floppy'><source file='/images/floppy.img'/><target dev='fda' bus='fdc'/></disk>
    <interface type='network'>
      <mac address='52:54:00:6b:3c:58'/><source network='default'/><model type='virtio'/>
      <address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/>
    </interface>
    <interface type='bridge'>
      <mac address='52:54:00:6b:3c:59'/><source bridge='br_dmz'/><model type='e1000e'/><link state='down'/>
      <address type='pci' domain='0x0000' bus='0x02' slot='0x00' function='0x0'/>
    </interface>
    <input type='tablet' bus='usb'/><input type='mouse' bus='ps2'/>
    <tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm>
    <sound model='ich9'/><sound model='ich6'/>
    <video><model type='qxl'/></video>
    <watchdog model='itco' action='reset'/><watchdog model='i6300esb' action='poweroff'/>
    <hostdev mode='subsystem' type='pci'><source><address domain='0x0000' bus='0x06' slot='0x00' function='0x0'/></source></hostdev>
    <memballoon model='none'/>
  </devices>
  <qemu:commandline><qemu:arg value='-snapshot'/></qemu:commandline>
</domain>`
