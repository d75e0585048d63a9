package guest

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
)

// structureHeader is the length of the header of a structure: type, length, and handle in two bytes (SMBIOS 2.7, 6.1.2).
const structureHeader = 4

// structures returns the structures of an SMBIOS table, which is given in hexadecimal: by type and handle, the formatted bytes in hexadecimal and the strings.
// What cannot be read as a structure is returned whole, under the name 'rest'.
func structures(table string) map[string]string {
	out := map[string]string{}
	rest, err := hex.DecodeString(table)
	if err != nil {
		return map[string]string{"rest": table}
	}
	for len(rest) > 0 {
		if len(rest) < structureHeader || int(rest[1]) < structureHeader || len(rest) < int(rest[1]) {
			out["rest"] = hex.EncodeToString(rest)
			break
		}
		formatted := rest[:rest[1]]
		strs, after, ended := strings.Cut(string(rest[rest[1]:]), "\x00\x00")
		if !ended {
			out["rest"] = hex.EncodeToString(rest)
			break
		}
		value := hex.EncodeToString(formatted)
		for _, text := range strings.Split(strs, "\x00") {
			if text != "" {
				value += fmt.Sprintf(" %q", text)
			}
		}
		out[fmt.Sprintf("%d.%04x", formatted[0], binary.LittleEndian.Uint16(formatted[2:]))] = value
		rest = []byte(after)
	}
	return out
}
