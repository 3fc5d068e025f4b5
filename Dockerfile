# syntax=docker/dockerfile:1

# Builds on the platform it is for; `docker buildx build --platform linux/amd64,linux/arm64 .` makes both.
FROM rust:1.95.0-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --locked --profile dist --bin meshgate

# No shell, no package manager; a user that is not root.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /src/target/dist/meshgate /usr/local/bin/meshgate
USER 65532:65532
EXPOSE 8443 8080
ENTRYPOINT ["/usr/local/bin/meshgate"]
