package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// serveHTTP answers /healthz (the process lives) and /readyz (it can answer) until ctx ends.
func (d *daemon) serveHTTP(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { report(w, "") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { report(w, d.trouble(r.Context())) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // nobody waits for an answer of a dying daemon
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// trouble says why no question can be answered now, "" when one can.
func (d *daemon) trouble(ctx context.Context) string {
	if t := d.bot.Trouble(); t != "" {
		return "Telegram: " + t
	}
	if _, err := d.models.Version(ctx); err != nil {
		return "the model server does not answer"
	}
	return ""
}

func report(w http.ResponseWriter, trouble string) {
	if trouble != "" {
		http.Error(w, trouble, http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n")) // whoever asked may have gone
}
