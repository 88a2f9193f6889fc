package tools

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestCurrentTime(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	tool, err := NewCurrentTime(berlin)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ args, want, err string }{
		{args: `{}`, want: "2000-01-01T01:00:00+01:00"},
		{args: `null`, want: "2000-01-01T01:00:00+01:00"},
		{args: `{"zone":"","layout":""}`, want: "2000-01-01T01:00:00+01:00"},
		{args: `{"zone":"local"}`, want: "2000-01-01T01:00:00+01:00"},
		{args: `{"zone":"UTC"}`, want: "2000-01-01T00:00:00Z"},
		{args: `{"zone":" America/New_York "}`, want: "1999-12-31T19:00:00-05:00"},
		{args: `{"layout":"RFC3339"}`, want: "2000-01-01T01:00:00+01:00"},
		{args: `{"layout":"2006-01-02 15:04"}`, want: "2000-01-01 01:00"},
		{args: `{"layout":"Monday, 2 January 2006"}`, want: "Saturday, 1 January 2000"},
		{args: `{"layout":"date"}`, want: "2000-01-01"},
		{args: `{"layout":"Time"}`, want: "01:00:00"},
		{args: `{"layout":"weekday","zone":"America/New_York"}`, want: "Friday"},
		{args: `{"layout":"unix"}`, want: "946684800"},
		{args: `{"zone":"Mars/Olympus"}`, err: `zone: "Mars/Olympus" is unknown; give one such as Europe/Berlin`},
		{args: `{"zone":"../../etc/passwd"}`, err: "zone: "},
		{args: `{"layout":"%Y-%m-%d"}`, err: `layout: "%Y-%m-%d" is none; write the moment`},
		{args: `{"layout":"%H:%M 15"}`, err: "layout: "},
		{args: `{"layout":"YYYY-MM-DD"}`, err: "layout: "},
		{args: `{"layout":"` + strings.Repeat("2006", 100) + `"}`, err: "layout: "},
		{args: `{"zone":["UTC"]}`, err: "zone: expected a string"},
	} {
		t.Run(test.args, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // the clock of a bubble starts at the year 2000
				got, err := call(t, tool, test.args)
				if test.err != "" {
					if err == nil || !strings.HasPrefix(err.Error(), test.err) {
						t.Errorf("got %s, error %v, want %s", got, err, test.err)
					}
				} else if err != nil || got != test.want {
					t.Errorf("got %s, %v, want %s", got, err, test.want)
				}
			})
		})
	}
	if _, err := NewCurrentTime(nil); err == nil {
		t.Error("no error without a zone")
	}
}
