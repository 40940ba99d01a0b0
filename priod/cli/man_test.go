package cli

import (
	"flag"
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write etc/man/priod.8 anew")

// The man page is made from the command tree; make man writes it.
func TestManPage(t *testing.T) {
	const path = "../../etc/man/priod.8"
	page, err := App("").ToManWithSection(8)
	if err != nil {
		t.Fatal(err)
	}
	page = regexp.MustCompile(`(?m)[ \t]+$`).ReplaceAllString(page, "")
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), page); diff != "" {
		t.Errorf("etc/man/priod.8 is not what the command tree says; run make man\n%s", diff)
	}
}
