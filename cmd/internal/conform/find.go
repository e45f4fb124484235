package conform

import (
	"context"
	"os"
	"regexp"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters/kit/proc"
)

// number is a version in what a program says.
var number = regexp.MustCompile(`\d+\.\d+\.\d+`)

// Find returns the path of a program and its version: the one that a variable of the
// environment names, or else the one that PATH finds. It is asked with a home of its
// own. Empty: there is none that runs.
func Find(ctx context.Context, name, named string) (path, version string) {
	if named == "" {
		named = name
	}
	path, err := proc.Find(named)
	if err != nil {
		return "", ""
	}
	home, err := os.MkdirTemp("", "conform")
	if err != nil {
		return "", ""
	}
	defer func() { _ = os.RemoveAll(home) }() // a folder of the system's temporary one
	res, err := proc.Run(ctx, proc.Job{
		Argv: []string{path, "--version"}, Env: environ(Site{Dir: home}), Timeout: 20 * time.Second, MaxOutput: 4096,
	})
	if err != nil || res.Code != 0 {
		return "", ""
	}
	return path, number.FindString(string(res.Stdout.Bytes))
}
