package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest"
)

// A refusal of the payload is the end of a turn that shows no images: there is
// nothing to leave out, and no overflow is reported.
func TestARefusedPayloadWithoutImagesEndsTheTurn(t *testing.T) {
	large := adaptertest.Fail(&adapters.Error{Class: adapters.ClassTooLarge, Message: "too many bytes"})
	_, s := open(t, adaptertest.Script{{adaptertest.Spend(20, 0), large}, adaptertest.Answer("never")})
	h := adaptertest.NewHost(t)
	h.OnLighten = func(context.Context, adapters.Heavy) (int, error) {
		t.Error("images are to be left out")
		return 0, nil
	}
	_, err := h.Play(t.Context(), s, "go")
	if e, ok := errors.AsType[*adapters.Error](err); !ok || e.Class != adapters.ClassTooLarge {
		t.Errorf("the turn ended with %v", err)
	}
	if len(h.Overflows()) != 0 || len(h.Usages()) != 1 {
		t.Errorf("%d overflows and %d usages, want none and what was spent", len(h.Overflows()), len(h.Usages()))
	}
}

func TestImagesToldInWordsAreWarnedOfOncePerTurn(t *testing.T) {
	told := chunk(adapters.Repaired{Rule: adapters.RuleImages, Text: "the model takes no images: one is told as text"})
	_, s := open(t, adaptertest.Script{
		{told, adaptertest.Call("1", "a", "{}"), adaptertest.Stop(adapters.StopTools)},
		append(adaptertest.Reply{told}, adaptertest.Answer("Done.")...),
		append(adaptertest.Reply{told}, adaptertest.Answer("Again.")...),
	})
	h := adaptertest.NewHost(t)
	h.WantWarnings = true
	for i := range 2 {
		if _, err := h.Play(t.Context(), s, "go"); err != nil {
			t.Fatal(err)
		}
		if got := h.Warnings(); len(got) != i+1 || !strings.HasPrefix(got[i], "the model takes no images") {
			t.Errorf("after turn %d the warnings are %q", i+1, got)
		}
	}
}
