# The example server in an image without anything else:
#
#   docker build -t kindwright-server .
#   docker run --rm -p 6443:6443 -v kindwright:/data kindwright-server
#
# The store, the certificates and the kubeconfig are in /data. The kubeconfig names 127.0.0.1. In
# Kubernetes, a volume for /data needs the pod's securityContext.fsGroup, 65532 for example.
#
# The version of the program is that of the commit or tag, from .git, and the release of Go is one:
# an image of another day has the same program.
FROM golang:1.26.8 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -buildid=' -o /out/server ./examples/server && mkdir /out/data

FROM scratch
COPY --from=build /out/server /server
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
VOLUME /data
EXPOSE 6443
ENTRYPOINT ["/server", "--data-dir=/data", "--listen=0.0.0.0:6443"]
