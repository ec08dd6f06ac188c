// Package admin is the HTTP port of a processor: metrics for Prometheus and probes for an
// orchestrator.
//
//	listener, err := admin.Listen("")           // 127.0.0.1:9464, or the next free port
//	handler := admin.NewHandler(admin.Options{Source: p, Gatherer: registry, Stopping: ctx.Done()})
//	err = admin.Serve(ctx, listener, handler)
//
// It answers four questions:
//
//	/metrics   what the processor has done and what waits, as Prometheus reads it
//	/livez     does every lane's loop still step? 503 asks for a restart
//	/healthz   the same
//	/readyz    has it joined, and does every assigned partition work, but for what would be so on
//	           every replica? 503 holds back a rolling update; the body names each partition that
//	           is not live or has trouble, and why
//
// Everything here may be called from several goroutines. Nothing is kept: every answer is made of a
// fresh picture of the processor, and taking that picture never stops a lane. There is no
// authentication, so the port belongs on the loopback interface or behind something that has it.
package admin
