package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Sentinels steer the loop by errors.Is, never by their text.
var (
	ErrTransient = errors.New("agent: passing failure")                   // the same request may succeed when tried again
	ErrTooLong   = errors.New("agent: the prompt does not fit the model") // shorten and ask again
	ErrStopped   = errors.New("agent: stopped by the person")             // the turn has its answer already; drop what runs
	ErrJoined    = errors.New("agent: more was written")                  // a message came before the first token: take it in and ask again
	ErrShutdown  = errors.New("agent: the process is going down")         // the turn stays open and is resumed
	ErrBudget    = errors.New("agent: out of steps")                      // the answer that comes with it is what was found so far
	ErrNoTurn    = errors.New("agent: nothing runs or ran here")
	ErrNotYours  = errors.New("agent: that is another person's turn")
)

// Fault is a failure that somebody can mend. Channels turn its code into a
// sentence in the person's language that says what to do next.
type Fault struct {
	Code FaultCode
	Args map[string]string // values for the sentence, by name
	Err  error             // the cause, for the log; may be nil
}

// FaultCode names a sentence of the catalogue.
type FaultCode string

const (
	FaultNoModel      FaultCode = "no_model"      // no model is chosen and several (or none) are installed; args: installed
	FaultModelAbsent  FaultCode = "model_absent"  // args: model, nearest (comma separated, may be ""), pull (the command line)
	FaultNoChat       FaultCode = "no_chat"       // the model only embeds; args: model
	FaultUnreachable  FaultCode = "unreachable"   // the model server does not answer; args: address, hint ("container" inside one)
	FaultMemory       FaultCode = "memory"        // the model does not fit; args: model, needed, available
	FaultLoadTimeout  FaultCode = "load_timeout"  // no first token in time; args: limit
	FaultIdleTimeout  FaultCode = "idle_timeout"  // the tokens stopped; args: limit
	FaultModelRefused FaultCode = "model_refused" // any other answer of the model server; args: status, text
	FaultEmpty        FaultCode = "empty"         // the model said nothing, twice
	FaultCut          FaultCode = "cut"           // the stream broke again and again
	FaultTooLong      FaultCode = "too_long"      // the newest message alone does not fit; args: tokens, limit
	FaultParked       FaultCode = "parked"        // the turn killed the process again and again; args: attempts
	FaultDiskFull     FaultCode = "disk_full"     // the disk has no room for the answer
	FaultBroke        FaultCode = "broke"         // anything else; args: turn
	FaultStepLimit    FaultCode = "step_limit"    // a note under an answer; args: steps
	FaultUnfinished   FaultCode = "unfinished"    // a note under an answer: the model ran into its output limit
	FaultLoop         FaultCode = "loop"          // a note under an answer: the model repeated the same call; args: tool
)

func (f *Fault) Error() string {
	var b strings.Builder
	b.WriteString(string(f.Code))
	for _, k := range slices.Sorted(maps.Keys(f.Args)) {
		fmt.Fprintf(&b, " %s=%q", k, f.Args[k])
	}
	if f.Err != nil {
		fmt.Fprintf(&b, ": %v", f.Err)
	}
	return b.String()
}

func (f *Fault) Unwrap() error { return f.Err }
