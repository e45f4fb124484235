//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package proc

// newFamily returns no mark: these systems do not show the environment of processes.
func newFamily() string { return "" }

func endFamily(string) {}

const familyEnv = ""
