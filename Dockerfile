# The image of a release: goreleaser lays the binaries beside this file, each under its platform.
FROM alpine:3.22 AS base
RUN apk add --no-cache ca-certificates && mkdir -m 1777 /empty

FROM scratch
ARG TARGETPLATFORM
# Servers behind TLS are checked against these roots, and what is scraped lies in /tmp while sixty runs.
COPY --from=base /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=base --chown=65532:65532 /empty /tmp
COPY $TARGETPLATFORM/sixty /sixty
USER 65532:65532
ENTRYPOINT ["/sixty"]
