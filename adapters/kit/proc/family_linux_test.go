package proc

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// household is a server with a child that has a family: it says the number of a
// grandchild that escaped from the child's group, and what its argument says happens.
func household(args []string) {
	out, in, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	p, err := Start(Spec{Argv: []string{os.Args[0], "stay"}, Env: childEnv("escape"), Family: true, Stdout: in})
	if err != nil {
		panic(err)
	}
	grandchild, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		panic(err)
	}
	fmt.Print(grandchild)
	switch args[0] {
	case "leave": // and nothing else is done for the family
		return
	case "kill":
		p.Kill()
	case "strike": // as anybody could
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
	hang()
}

func init() { roles["household"] = household }

// Agent programs start the commands of their models in sessions of their own.
func TestAFamilyEndsWithTheChildAndWithTheServer(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"kill", "strike", "leave", "crash"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			server := exec.Command(os.Args[0], how)
			server.Env = childEnv("household")
			out, err := server.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if how == "crash" {
				err = server.Process.Kill()
			}
			if err != nil {
				t.Fatal(err)
			}
			awaitGone(t, number(t, line))
			_ = server.Process.Kill() // it may be gone
			_ = server.Wait()         // says that it was killed
		})
	}
}

// Others may have the same words in their environment.
func TestAFamilyIsNobodyElse(t *testing.T) {
	t.Parallel()
	stranger := exec.Command(os.Args[0])
	stranger.Env = append(childEnv("hang"), familyEnv+"=house.12", "X"+familyEnv+"=house.1", "NOTE="+familyEnv+"=house.1")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	kin := exec.Command(os.Args[0])
	kin.Env = append(childEnv("hang"), familyEnv+"=house.1")
	if err := kin.Start(); err != nil {
		t.Fatal(err)
	}
	endFamily("house.1")
	if err := kin.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the family: %v", err)
	}
	if !alive(stranger.Process.Pid) {
		t.Error("a stranger was killed")
	}
	endFamily("house")
	if err := stranger.Wait(); err == nil {
		t.Error("the house has another family, which lives on")
	}
}

// What a child that ends costs, on a machine with many processes.
func BenchmarkEndFamily(b *testing.B) {
	for b.Loop() {
		endFamily("nobody")
	}
}
