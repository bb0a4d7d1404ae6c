# The control plane: the sandbox server for sandboxes on Kubernetes or Docker. `npm run image -- --server sandbox-server` makes the context.
ARG BASE=debian:bookworm-slim
FROM ${BASE}

RUN if [ ! -s /etc/ssl/certs/ca-certificates.crt ]; then \
      apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*; \
    fi; \
    mkdir -p /data && chown 10001:10001 /data

COPY app /opt/slipway
RUN mkdir -p /usr/local/bin && ln -s /opt/slipway/node_modules/.bin/node /usr/local/bin/node && node --version

ENV HOME=/data LANG=C.UTF-8
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 3000
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:3000/alive').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]

ENTRYPOINT ["node", "/opt/slipway/packages/sandbox-server/src/main.js"]
CMD ["--host", "0.0.0.0", "--port", "3000", "--data", "/data"]
