FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /agentd ./cmd/agentd

FROM debian:bookworm-slim
# More than the daemon itself needs: these are what its tools work with.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates coreutils curl git poppler-utils python3 tzdata \
    && rm -rf /var/lib/apt/lists/*
# Of one number, so that the owner of a bind-mounted /data can be set to 10001:10001.
RUN groupadd --gid 10001 agentd \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin agentd \
    && install -d -o agentd -g agentd -m 0700 /data
COPY --from=build /agentd /usr/local/bin/agentd
COPY docker/entrypoint.sh /usr/local/bin/entrypoint.sh

USER agentd
WORKDIR /data
VOLUME /data
ENV DATA_DIR=/data \
    HTTP_ADDR=127.0.0.1:8080
# Alive, not ready: without Ollama the bot still answers, and says what is wrong.
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s --start-interval=1s --retries=3 \
    CMD curl --fail --silent --show-error --output /dev/null "http://${HTTP_ADDR}/healthz"
ENTRYPOINT ["entrypoint.sh"]
