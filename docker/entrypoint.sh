#!/bin/sh
# The image's entry command: runs agentd and hands on its exit code, but holds
# when the configuration is at fault (exit code 2). Compose's restart policies do
# not look at exit codes: they would start agentd again and again, and bury the
# faults that it prints. Holding, the container is unhealthy until it is stopped.

case ${1-run} in
run) ;;
*) exec agentd "$@" ;; # the other commands end by themselves
esac

child=
stopping=
trap 'stopping=1; [ -z "$child" ] || kill -TERM "$child" 2>/dev/null' TERM INT

agentd run &
child=$!
[ -z "$stopping" ] || kill -TERM "$child" 2>/dev/null
while :; do
	wait "$child"
	code=$?
	# A signal ends wait early. Only then is the child still there.
	kill -0 "$child" 2>/dev/null || break
done

if [ "$code" -ne 2 ] || [ -n "$stopping" ]; then
	exit "$code"
fi
trap 'exit 2' TERM INT
echo 'The settings above have to be corrected. This container waits, unhealthy, until it is stopped; then start it anew.' >&2
while :; do sleep 1; done # a signal is heeded when a sleep ends
