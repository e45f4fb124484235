package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/alecthomas/kong"
)

// version is set by release builds.
var version = "0.1.0-dev"

type versionCmd struct {
	JSON bool `name:"json" help:"Print one JSON object."`
}

// A build says what this program was built from and with.
type build struct {
	Version  string  `json:"version"`
	Commit   *string `json:"commit"`   // null if it was not built from a checkout
	Modified *bool   `json:"modified"` // whether the checkout had changes; null with the commit
	Go       string  `json:"go"`
	OS       string  `json:"os"`
	Arch     string  `json:"arch"`
}

func thisBuild() build {
	b := build{Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = new(s.Value)
		case "vcs.modified":
			b.Modified = new(s.Value == "true")
		}
	}
	return b
}

// String is the build on one line.
func (b build) String() string {
	text := fmt.Sprintf("plimsoll %s %s %s/%s", b.Version, b.Go, b.OS, b.Arch)
	if commit := deref(b.Commit); len(commit) >= 12 {
		text += " " + commit[:12]
	}
	if deref(b.Modified) {
		text += " with changes"
	}
	return text
}

// Run prints the program's and the toolchain's version.
func (c *versionCmd) Run(m *Main) error {
	b := thisBuild()
	if c.JSON {
		return printJSON(m.Stdout, b)
	}
	_, err := fmt.Fprintln(m.Stdout, b)
	return err
}

// versionFlag is --version: it does what the command does, whatever else is asked.
type versionFlag bool

// BeforeReset is called by kong when the flag is there.
func (versionFlag) BeforeReset(app *kong.Kong) error {
	if _, err := fmt.Fprintln(app.Stdout, thisBuild()); err != nil {
		say(app.Stderr, "plimsoll: write output: %v\n", err)
		app.Exit(exitFailure)
	}
	app.Exit(exitOK)
	return nil
}
