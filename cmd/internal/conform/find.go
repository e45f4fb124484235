package conform

import (
	"context"
	"fmt"
	"os"

	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/homes"
	"github.com/plimsoll-dev/plimsoll/adapters/claude"
	"github.com/plimsoll-dev/plimsoll/adapters/codex"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/proc"
)

// versionIn reads the version in what a program says of itself.
var versionIn = map[string]func(line string) (version string, ok bool){"codex": codex.VersionOf, "claude": claude.VersionOf}

// Find returns the path of codex or claude and its version: the one that is named, or
// else the one that PATH finds. It is asked with a home of its own. The error says why
// there is none.
func Find(ctx context.Context, name, named string) (path, version string, err error) {
	if named == "" {
		named = name
	}
	if path, err = proc.Find(named); err != nil {
		return "", "", fmt.Errorf("there is no program %s", named)
	}
	home, err := os.MkdirTemp("", "conform")
	if err != nil {
		return "", "", err
	}
	defer func() { _ = os.RemoveAll(home) }() // a folder of the system's temporary one
	line, err := proc.Version(ctx, path, homes.Environ(home))
	if err != nil {
		return "", "", err
	}
	version, ok := versionIn[name](line)
	if !ok {
		return "", "", fmt.Errorf("%s is not %s: asked for its version, it says %q", path, name, line)
	}
	return path, version, nil
}
