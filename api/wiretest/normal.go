package wiretest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var (
	uuid    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	named   = regexp.MustCompile(`\$\d+`)
	times   = regexp.MustCompile(`"(\w+At|\w+AtMs|durationMs)":\d+`)
	machine = regexp.MustCompile(`"(\w*[cC]ursor|asOf|codexHome|userAgent|platformFamily|platformOs|cliVersion|version|database)":"[^"]*"`)
)

// names are the UUIDs of a run.
type names struct {
	byID map[string]string
	ids  []string
}

// normal makes equal what differs from run to run.
func (n *names) normal(frame string) string {
	frame = uuid.ReplaceAllStringFunc(frame, func(id string) string {
		if n.byID[id] == "" {
			n.ids = append(n.ids, id)
			n.byID[id] = fmt.Sprintf("$%d", len(n.ids))
		}
		return n.byID[id]
	})
	frame = times.ReplaceAllString(frame, `"$1":0`)
	return machine.ReplaceAllString(frame, `"$1":"…"`)
}

// actual puts the UUIDs of this run into what a script sends. A name that nothing
// has yet is an error of the script.
func (n *names) actual(text string) (string, error) {
	var unknown error
	text = named.ReplaceAllStringFunc(text, func(name string) string {
		i, err := strconv.Atoi(name[1:])
		if err != nil || i < 1 || i > len(n.ids) {
			unknown = fmt.Errorf("nothing is called %s yet", name)
			return name
		}
		return n.ids[i-1]
	})
	return text, unknown
}

// delta is what of a frame makes it a delta.
type delta struct {
	Method string `json:"method"`
	Params struct {
		ItemID string `json:"itemId"`
		Offset int    `json:"offset"`
		Delta  string `json:"delta"`
	} `json:"params"`
}

func deltaOf(frame string) (delta, bool) {
	var d delta
	err := json.Unmarshal([]byte(frame), &d)
	return d, err == nil && strings.HasSuffix(strings.ToLower(d.Method), "delta")
}

// short is how a run of deltas is written.
func (d delta) short(n *names) string {
	b, err := json.Marshal(map[string]any{"method": d.Method, "offset": d.Params.Offset, "deltas": d.Params.Delta, "itemId": n.normal(d.Params.ItemID)})
	if err != nil {
		panic(err) // strings and a number
	}
	return string(b)
}
