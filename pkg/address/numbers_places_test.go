package address_test

import (
	"fmt"
	"testing"

	"github.com/kilnvm/kiln/pkg/address"
	"github.com/kilnvm/kiln/pkg/hardware"
)

// TestPlacesReadBack: what one boot writes into a record, the next one reads.
func TestPlacesReadBack(t *testing.T) {
	t.Parallel()
	node := uint(127)
	for _, c := range []struct {
		text string
		back func(text string) (fmt.Stringer, error)
	}{
		{address.PCI{Bus: 254, Slot: 31, Function: 7}.String(), reading(address.ParsePCI)},
		{address.DriveAt(1523, hardware.Bus("sata").Controller.Units).String(), reading(address.ParseDrive)},
		{address.DriveAt(300, hardware.Bus("scsi").Controller.Units).String(), reading(address.ParseDrive)},
		{address.SerialAt(31).String(), reading(address.ParseSerial)},
		{address.CCW{CSSID: 0xfe, SSID: 3, Device: 0xffff}.String(), reading(address.ParseCCW)},
		{address.CCW{CSSID: 0xfe}.String(), reading(address.ParseCCW)},
		{address.Target{Prefix: "sd", Number: 701}.String(), reading(address.ParseTarget)},
		{address.Expander{BusNr: 240, NUMANode: &node}.String(), reading(address.ParseExpander)},
		{address.Expander{BusNr: 1}.String(), reading(address.ParseExpander)},
	} {
		back, err := c.back(c.text)
		if err != nil || back.String() != c.text {
			t.Errorf("'%s' reads back as '%v', %v", c.text, back, err)
		}
	}
}

func reading[T fmt.Stringer](parse func(string) (T, error)) func(string) (fmt.Stringer, error) {
	return func(text string) (fmt.Stringer, error) { return parse(text) }
}

// TestNumbersOfPlaces: a place and its number are one, at the first and the last place of a controller.
func TestNumbersOfPlaces(t *testing.T) {
	t.Parallel()
	for _, n := range []uint{0, 1, 5, 6, 14, 15, 29, 30, 255, 256, 1000} {
		for _, units := range []uint{hardware.Bus("sata").Controller.Units, hardware.Bus("scsi").Controller.Units} {
			if got, ok := address.DriveAt(n, units).Number(units); got != n || !ok {
				t.Errorf("drive %d of controllers of %d is number %d, %v", n, units, got, ok)
			}
		}
		if got := address.USBAt(n).Number(); got != n {
			t.Errorf("USB device %d is number %d", n, got)
		}
		if got := address.SerialAt(n).Number(); got != n {
			t.Errorf("channel %d is number %d", n, got)
		}
	}
	if _, ok := (address.Drive{Unit: hardware.Bus("sata").Controller.Units}).Number(hardware.Bus("sata").Controller.Units); ok {
		t.Error("a unit that only a SCSI controller has was read as a unit of a SATA controller")
	}
	if at, err := address.ParseUSB(address.FormatUSB(3, "15")); err != nil || at != (address.USB{Bus: 3, Port: 15}) {
		t.Errorf("%v, %v", at, err)
	}
}
