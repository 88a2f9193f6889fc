package tools

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"agentd/internal/agent"
)

//go:embed current_time.md
var currentTimeText string

// maxLayoutBytes bounds a layout: a model in a loop writes pages.
const maxLayoutBytes = 200

type currentTimeArgs struct {
	Zone   string `json:"zone,omitempty" jsonschema:"such as Europe/Berlin; default the user's"`
	Layout string `json:"layout,omitempty" jsonschema:"Go layout such as Monday 2 January 2006 15:04, or date, time, weekday, unix"`
}

// NewCurrentTime makes current_time. Without the argument zone it answers in
// the given one. Zones come from the host, or from time/tzdata if the program
// links it.
func NewCurrentTime(zone *time.Location) (agent.Tool, error) {
	if zone == nil {
		return nil, errors.New("tools: current_time: no time zone")
	}
	run := func(_ context.Context, _ agent.Scope, call Call[currentTimeArgs]) (agent.Result, error) {
		zone := zone
		if name := strings.TrimSpace(call.Args.Zone); name != "" && !strings.EqualFold(name, "local") {
			var err error
			if zone, err = time.LoadLocation(name); err != nil {
				return agent.Result{}, fmt.Errorf("zone: %q is unknown; give one such as Europe/Berlin, America/New_York, Asia/Tokyo or UTC, or leave it out", cut(name))
			}
		}
		text, err := formatTime(time.Now().In(zone), call.Args.Layout)
		return agent.Result{Text: text}, err
	}
	return New("current_time", currentTimeText, Always[currentTimeArgs](agent.ReadOnly, agent.Workspace), run)
}

func formatTime(now time.Time, layout string) (string, error) {
	switch strings.ToLower(strings.TrimSpace(layout)) {
	case "", "rfc3339", "rfc 3339", "iso8601", "iso 8601":
		return now.Format(time.RFC3339), nil
	case "date":
		return now.Format(time.DateOnly), nil
	case "time":
		return now.Format(time.TimeOnly), nil
	case "weekday":
		return now.Weekday().String(), nil
	case "unix":
		return strconv.FormatInt(now.Unix(), 10), nil
	}
	if len(layout) > maxLayoutBytes || !isLayout(layout) {
		return "", fmt.Errorf("layout: %q is none; write the moment Mon Jan 2 15:04:05 2006 the way you want it, such as 2006-01-02 15:04, or one of date, time, weekday, unix", cut(layout))
	}
	return now.Format(layout), nil
}

// isLayout reports whether Go finds anything to fill in. %Y-%m-%d and YYYY-MM-DD,
// which models know from elsewhere, would come back as they are.
func isLayout(layout string) bool {
	a := time.Date(2011, time.January, 3, 4, 5, 6, 7, time.FixedZone("A", 3600))
	b := time.Date(2022, time.December, 31, 23, 58, 59, 987654321, time.FixedZone("B", -7200))
	return !strings.Contains(layout, "%") && a.Format(layout) != b.Format(layout)
}
