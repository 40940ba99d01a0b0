package cli

import (
	"bytes"
	"strings"
	"testing"
)

// Where history teaches nothing the answer is a sentence, not an empty table.
func TestNothingTaught(t *testing.T) {
	var out bytes.Buffer
	showTaught(&out, nil)
	if !strings.HasPrefix(out.String(), "Nothing:") {
		t.Errorf("%s", &out)
	}
}
