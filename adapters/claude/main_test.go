package claude

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// roleEnv makes the test binary a program that is no good Claude Code.
const roleEnv = "PLIMSOLL_TEST_CLAUDE_ROLE"

var roles = map[string]func(){
	"garbage": func() {
		for range 10_000 {
			fmt.Println("Welcome! This is no stream-json.")
		}
		hang()
	},
	"hang": hang,
	"echo": func() { _, _ = io.Copy(os.Stdout, os.Stdin) },
	"wrong": func() { // answers, and not what Claude Code does
		var f struct {
			ID string `json:"request_id"`
		}
		if json.NewDecoder(os.Stdin).Decode(&f) != nil {
			os.Exit(1) // it was asked for its version
		}
		fmt.Printf(`{"type":"control_response","response":{"subtype":"success","request_id":%q,"response":["hi"]}}`+"\n", f.ID)
		hang()
	},
	"flood": func() {
		for {
			if _, err := fmt.Println(`{"type":"system","subtype":"status"}`); err != nil {
				return
			}
		}
	},
	"die": func() {
		fmt.Fprintln(os.Stderr, "error: unknown option '--permission-prompt-tool'")
		os.Exit(1)
	},
	"endless": func() {
		line := strings.Repeat("x", 1<<16)
		for {
			if _, err := os.Stdout.WriteString(line); err != nil {
				return
			}
		}
	},
}

// hang does nothing until the process is killed.
func hang() {
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGUSR1) // so that the runtime does not take it for a deadlock
	<-never
}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		roles[role]()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
