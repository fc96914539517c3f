# One image for the migrations, the API, the dispatcher and the worker; docker-compose.yml says which one a container runs.
#
#   docker build --target cpu  -t prefsvm:cpu .
#   docker build --target cuda -t prefsvm:cuda .     (--build-arg CUDA=13 for hosts with a CUDA 13 driver)
#
# The CUDA target has no CUDA base image: CuPy's lock brings the CUDA libraries as hashed wheels, so both targets share
# one Python and one Debian, and a GPU host needs the NVIDIA driver and container toolkit only.
#
# Base images are named by tag; `python3 scripts/pin_images.py` writes the digests of today beside them, here and in
# docker-compose.yml (docs/production.md).
#
# scripts/check_clean_root.sh runs these steps without a container engine. It knows FROM, ARG, ENV, WORKDIR, COPY, RUN
# and USER; keep to them and to the instructions that only describe the image.

FROM python:3.11-slim-bookworm AS wheel
WORKDIR /build
COPY requirements/build.lock ./
RUN python3 -m venv venv \
    && venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r build.lock
COPY pyproject.toml hatch_build.py README.md ./
COPY prefsvm prefsvm
COPY service service
COPY worker worker
COPY solver solver
COPY migrations migrations
RUN venv/bin/pip wheel --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .

FROM python:3.11-slim-bookworm AS python-cpu
WORKDIR /build
COPY requirements/server.lock ./
RUN python3 -m venv /opt/prefsvm \
    && /opt/prefsvm/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r server.lock
COPY --from=wheel /build/dist dist
# Nothing is installed into a running container: pip goes once it has done its work.
RUN /opt/prefsvm/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-index dist/*.whl \
    && /opt/prefsvm/bin/pip uninstall --yes --quiet pip setuptools

FROM python:3.11-slim-bookworm AS python-cuda
ARG CUDA=12
WORKDIR /build
COPY requirements/gpu-cuda${CUDA}.lock ./
RUN python3 -m venv /opt/prefsvm \
    && /opt/prefsvm/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r gpu-cuda${CUDA}.lock
COPY --from=wheel /build/dist dist
RUN /opt/prefsvm/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-index dist/*.whl \
    && /opt/prefsvm/bin/pip uninstall --yes --quiet pip setuptools

FROM python:3.11-slim-bookworm AS runtime
RUN groupadd --gid 10001 prefsvm \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin prefsvm \
    && install --directory --owner prefsvm --group prefsvm --mode 0700 /var/lib/prefsvm
# The root file system may be read-only as long as /tmp (a tmpfs) and /var/lib/prefsvm (a volume) can be written.
# NUMBA_CACHE_DIR must be writable: Numba refuses at import to cache anywhere it cannot write, so a cache made at build
# time is of no use in a read-only tree (and would fit the build machine's CPU only). A worker's container
# compiles when it starts, on up to four processors, and not at its first job.
ENV PATH=/opt/prefsvm/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/tmp \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    NUMBA_CACHE_DIR=/tmp/numba \
    CUPY_CACHE_DIR=/tmp/cupy \
    PREFSVM_DATA_DIR=/var/lib/prefsvm \
    PREFSVM_HOST=0.0.0.0 \
    PREFSVM_PORT=8000
WORKDIR /var/lib/prefsvm
USER 10001:10001
EXPOSE 8000
# That of the default command; docker-compose.yml replaces it for the other processes.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ['PREFSVM_PORT'] + '/healthz', timeout=4)"]
CMD ["python", "-m", "prefsvm.service.app"]

FROM runtime AS cuda
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
COPY --from=python-cuda /opt/prefsvm /opt/prefsvm

FROM runtime AS cpu
COPY --from=python-cpu /opt/prefsvm /opt/prefsvm
