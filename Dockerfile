# groupd in a container.
#
#   docker build -t groupd .
#   docker run -p 9092:9092 -v groupd:/data groupd \
#       serve --listen 0.0.0.0:9092 --data-dir /data --advertised 127.0.0.1:9092
#
# Arguments replace the whole CMD below, so repeat those of them that you keep. --advertised is the
# address that clients get in metadata replies; they must be able to reach it. Without the flag they
# get 127.0.0.1:9092, which is right for clients on the machine that publishes the port.
# The admin port listens within the container only: `docker exec NAME groupd groups list`. To reach it from
# outside, make a token and give the daemon an address, too:
#   docker run -e GROUPD_ADMIN_TOKENS="admin $(openssl rand -hex 16)" -p 127.0.0.1:9644:9644 ... --admin 0.0.0.0:9644
# Give it a limit of memory (docker run --memory 1g), as deploy/compose.yaml does: docs/serve.md has the sizes.

# The web page of the admin port. package-lock.json has the checksums of what is installed.
FROM node:22-bookworm-slim AS console
WORKDIR /src/coordinator/console/web
COPY groupd/coordinator/console/web/package.json groupd/coordinator/console/web/package-lock.json groupd/coordinator/console/web/.npmrc ./
RUN npm ci --omit=dev
COPY groupd/coordinator/console/web .
RUN npm run build

FROM python:3.11-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/groupd
WORKDIR /src
COPY constraints-image.txt .
# Only what has the checksum of constraints-image.txt (scripts/image_constraints.py writes it), and nothing that must be built.
RUN /opt/groupd/bin/pip install --require-hashes --only-binary :all: --requirement constraints-image.txt
COPY . .
COPY --from=console /src/coordinator/console/built groupd/coordinator/console/built
RUN /opt/groupd/bin/pip install --no-index --no-deps --no-build-isolation .

FROM python:3.11-slim-bookworm
RUN groupadd --system --gid 10001 groupd \
    && useradd --system --uid 10001 --gid groupd --no-create-home --home-dir /data groupd \
    && install --directory --owner=groupd --group=groupd --mode=0700 /data
COPY --from=build /opt/groupd /opt/groupd
ENV PATH=/opt/groupd/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER groupd
WORKDIR /data
VOLUME /data
EXPOSE 9092 9644
STOPSIGNAL SIGTERM
# Ready = every shard is loaded. A large log takes a while to replay: raise the start period.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["groupd", "health"]
ENTRYPOINT ["groupd"]
CMD ["serve", "--listen", "0.0.0.0:9092", "--admin", "127.0.0.1:9644", "--data-dir", "/data"]
