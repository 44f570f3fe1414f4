# The program, alone, and its licences: a static binary, on nothing, as nobody.
#
#   docker build -t tidegate:local .
FROM golang:1.26.8 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
# With .git: the version is the tag.
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=auto -o /tidegate ./cmd/tidegate
RUN mkdir /empty && scripts/notices > /THIRD_PARTY_NOTICES

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /tidegate /tidegate
COPY --from=build /THIRD_PARTY_NOTICES /src/LICENSE /
# A volume that is mounted there begins with this owner.
COPY --from=build --chown=65532:65532 /empty /data
USER 65532:65532
ENTRYPOINT ["/tidegate"]
CMD ["--help"]
HEALTHCHECK --interval=5s --timeout=4s --start-period=10s --retries=3 CMD ["/tidegate", "health"]
