package claude

import (
	"fmt"
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
