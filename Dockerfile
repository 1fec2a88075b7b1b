# The images of Harmony, one target each: operator, sidecar, worker.
#
# BASE_IMAGE needs Python 3.11 with venv. Every package is pinned by constraints.txt. No image
# writes outside /tmp and what is mounted, so all run with a read-only root file system, and as
# any user. Where the package index is, and whom to trust, is the builder's configuration.
ARG BASE_IMAGE=python:3.11-slim

FROM ${BASE_IMAGE} AS base
ENV PATH=/opt/harmony/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
RUN python3 -m venv --without-pip /opt/harmony \
    && groupadd --gid 10001 harmony \
    && useradd --uid 10001 --gid harmony --no-create-home --home-dir /tmp harmony

# pip lives here, and works on the environment of the stage that mounts it.
FROM base AS pip
RUN python3 -m venv /opt/pip
COPY constraints.txt /opt/pip/
ENV PIP_CONSTRAINT=/opt/pip/constraints.txt PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

# Gigabytes that change with their pins only, whatever happens to the code.
FROM base AS torch
COPY constraints.txt /opt/harmony/
RUN --mount=type=bind,from=pip,source=/opt/pip,target=/opt/pip \
    /opt/pip/bin/pip --python /opt/harmony/bin/python install --no-cache-dir \
        --constraint /opt/harmony/constraints.txt torch

FROM pip AS build
RUN /opt/pip/bin/pip install hatchling
WORKDIR /src
COPY pyproject.toml README.md ./
COPY crds/harmony_api crds/harmony_api
COPY operator operator
COPY worker_image/harmony_sidecar worker_image/harmony_sidecar
COPY worker_image/harmony_worker worker_image/harmony_worker
RUN /opt/pip/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels .

FROM build AS install-operator
RUN /opt/pip/bin/pip --python /opt/harmony/bin/python install "$(echo /wheels/*.whl)[operator]"

FROM build AS install-sidecar
RUN /opt/pip/bin/pip --python /opt/harmony/bin/python install "$(echo /wheels/*.whl)[sidecar]"

FROM base AS operator
COPY --from=install-operator /opt/harmony /opt/harmony
USER 10001:10001
ENTRYPOINT ["python", "-m", "harmony_operator"]

FROM base AS sidecar
COPY --from=install-sidecar /opt/harmony /opt/harmony
USER 10001:10001
ENTRYPOINT ["python", "-m", "harmony_sidecar"]

FROM torch AS worker
ENV HARMONY_EXAMPLES=/opt/harmony/examples NVIDIA_DRIVER_CAPABILITIES=compute,utility
# Copied, not mounted: a builder's cache notices another wheel only so.
COPY --from=build /wheels /opt/harmony/wheels
RUN --mount=type=bind,from=pip,source=/opt/pip,target=/opt/pip \
    /opt/pip/bin/pip --python /opt/harmony/bin/python install --no-cache-dir \
        --constraint /opt/harmony/constraints.txt "$(echo /opt/harmony/wheels/*.whl)[examples]"
COPY worker_image/examples ${HARMONY_EXAMPLES}
USER 10001:10001
CMD ["python"]
