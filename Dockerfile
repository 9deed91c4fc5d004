# The image of a release: goreleaser lays the binaries beside this file, each under its platform.
# The binary needs nothing else: root certificates are in it.
FROM scratch
ARG TARGETPLATFORM
# What is scraped lies in /tmp while sixty runs.
COPY --chown=65532:65532 deploy/tmp /tmp
COPY $TARGETPLATFORM/sixty /sixty
USER 65532:65532
ENTRYPOINT ["/sixty"]
