package threads

import (
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// limits of the tools that clients declare.
const (
	maxTools     = 256
	maxToolBytes = 1 << 20 // of all of them
	maxDeclared  = 128     // code points of a name and of a namespace
)

// checkTools refuses tools that no model can be offered. Names are free: see
// offered.
func checkTools(tools []DynamicTool) error {
	if len(tools) > maxTools {
		return fault.New(fault.TooLarge, "there are %d tools; at most %d are allowed", len(tools), maxTools)
	}
	known, bytes := map[[2]string]bool{}, 0
	for i, t := range tools {
		if err := checkText("a tool's name", t.Name, maxDeclared); err != nil {
			return err
		}
		if err := checkText("a tool's namespace", t.Namespace, maxDeclared); err != nil {
			return err
		}
		name := [2]string{t.Namespace, t.Name}
		bytes += len(t.Description) + len(t.Schema)
		switch {
		case t.Name == "":
			return fault.New(fault.Invalid, "tools[%d] has no name", i)
		case known[name]:
			return fault.New(fault.Invalid, "tools[%d]: %q is declared twice", i, t.Name)
		case !isObject(t.Schema) || !utf8.Valid(t.Schema) || depth(t.Schema) > maxInjectedDepth:
			return fault.New(fault.Invalid, "tools[%d]: the schema of %q is not a JSON object of at most %d levels", i, t.Name, maxInjectedDepth)
		case !utf8.ValidString(t.Description):
			return fault.New(fault.Invalid, "tools[%d]: the description of %q is not valid UTF-8", i, t.Name)
		case bytes > maxToolBytes:
			return fault.New(fault.TooLarge, "the tools have more than %d bytes", maxToolBytes)
		}
		known[name] = true
	}
	return nil
}
