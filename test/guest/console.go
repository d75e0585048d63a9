package guest

import (
	"encoding/json"
	"strings"
)

// Console returns the log of a guest's pod with the entries of the serial console as what the guest wrote. It leaves all other lines as they are.
func Console(log string) string {
	var out strings.Builder
	for line := range strings.Lines(log) {
		var entry struct {
			Message string  `json:"msg"`
			Line    *string `json:"line"`
			Partial bool    `json:"partial"`
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Message != "serial console" || entry.Line == nil {
			out.WriteString(line)
			continue
		}
		out.WriteString(*entry.Line)
		if !entry.Partial {
			out.WriteByte('\n')
		}
	}
	return out.String()
}
