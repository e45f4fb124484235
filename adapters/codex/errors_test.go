package codex

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
)

// What codex hands on as it came from the model's server is told as a sentence, and
// counts as what it is.
func TestATurnsErrorIsToldInWords(t *testing.T) {
	for name, c := range map[string]struct {
		message, info string
		want          string
		class         adapters.Class
	}{
		"a body":         {`{"error":{"code":null,"message":"The request could not be understood.","param":null,"type":"invalid_request_error"}}`, `"other"`, "The request could not be understood.", adapters.ClassBadRequest},
		"an overflow":    {`{"error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model.","type":"invalid_request_error"}}`, `"other"`, "Your input exceeds the context window of this model.", adapters.ClassOverflow},
		"a class wins":   {`{"error":{"message":"slow down"}}`, `"usageLimitExceeded"`, "slow down", adapters.ClassRateLimited},
		"words":          {"exceeded retry limit, last status: 429 Too Many Requests", `{"responseTooManyFailedAttempts":{"httpStatusCode":429}}`, "exceeded retry limit, last status: 429 Too Many Requests", adapters.ClassRateLimited},
		"braces":         {`{not JSON`, `"other"`, `{not JSON`, adapters.ClassBadRequest},
		"no error":       {`{"plan":"pro"}`, `"other"`, `{"plan":"pro"}`, adapters.ClassBadRequest},
		"nothing at all": {"", `"sandboxError"`, "codex failed: sandboxError", "sandboxError"},
	} {
		err := (&turnError{Message: c.message, Info: json.RawMessage(c.info)}).failure()
		e, ok := errors.AsType[*adapters.Error](err)
		if !ok || e.Message != c.want || e.Class != c.class {
			t.Errorf("%s: %#v", name, err)
		}
	}
}
