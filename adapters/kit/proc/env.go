package proc

import (
	"slices"
	"strings"
)

// plain are the variables that any program may need and that hold no secrets. Those
// whose names begin with LC_ are plain too.
var plain = []string{
	"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER",
	"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME",
}

// Environ returns of an environment (NAME=value) what any program may need, and the
// variables that are named beside.
func Environ(all []string, names ...string) []string {
	out := []string{}
	for _, pair := range all {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "LC_") || slices.Contains(plain, name) || slices.Contains(names, name) {
			out = append(out, pair)
		}
	}
	return out
}
