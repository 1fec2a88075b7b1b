# The images of Harmony, one target each: operator, sidecar, worker.
#
# BASE_IMAGE needs Python 3.11 with venv. Every package is pinned by constraints.txt. No image
# writes outside /tmp and what is mounted, so all run with a read-only root file system, and as
# any user. Where the package index is, and whom to trust, is the builder's configuration.
ARG BASE_IMAGE=python:3.11-slim
ARG SITE_PACKAGES=/opt/harmony/lib/python3.11/site-packages

FROM ${BASE_IMAGE} AS base
ENV PATH=/opt/harmony/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
RUN python3 -m venv --without-pip /opt/harmony \
    && groupadd --gid 10001 harmony \
    && useradd --uid 10001 --gid harmony --no-create-home --home-dir /tmp harmony

# pip lives here, and works on the environment of the stage that mounts it.
FROM base AS pip
RUN python3 -m venv /opt/pip
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

# Of all pins, those of torch and what it needs.
FROM base AS torch-pins
COPY constraints.txt /
RUN grep -iE '^(torch|triton|cuda-.*|nvidia-.*|filelock|fsspec|jinja2|markupsafe|mpmath|networkx|setuptools|sympy|typing_extensions)==' \
        /constraints.txt > /torch-constraints.txt && touch --date=@0 /torch-constraints.txt

# Gigabytes that change with their own pins only, whatever happens to the rest.
FROM base AS torch
COPY --from=torch-pins /torch-constraints.txt /opt/harmony/
RUN --mount=type=bind,from=pip,source=/opt/pip,target=/opt/pip \
    /opt/pip/bin/pip --python /opt/harmony/bin/python install --no-cache-dir \
        --constraint /opt/harmony/torch-constraints.txt torch

# Says by its extras what each image depends on; the code is copied, so that a change of it is a
# small last layer.
FROM pip AS project
COPY constraints.txt /opt/pip/
ENV PIP_CONSTRAINT=/opt/pip/constraints.txt
RUN /opt/pip/bin/pip install hatchling
WORKDIR /src
COPY pyproject.toml ./
RUN touch README.md && /opt/pip/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels .

FROM project AS operator-packages
RUN /opt/pip/bin/pip --python /opt/harmony/bin/python install "$(echo /wheels/*.whl)[operator]" \
    && /opt/pip/bin/pip --python /opt/harmony/bin/python uninstall --yes harmony

FROM project AS sidecar-packages
RUN /opt/pip/bin/pip --python /opt/harmony/bin/python install "$(echo /wheels/*.whl)[sidecar]" \
    && /opt/pip/bin/pip --python /opt/harmony/bin/python uninstall --yes harmony

FROM torch AS worker-packages
COPY constraints.txt /opt/harmony/
COPY --from=project /wheels /wheels
RUN --mount=type=bind,from=pip,source=/opt/pip,target=/opt/pip \
    /opt/pip/bin/pip --python /opt/harmony/bin/python install --no-cache-dir \
        --constraint /opt/harmony/constraints.txt "$(echo /wheels/*.whl)[examples]" \
    && /opt/pip/bin/pip --python /opt/harmony/bin/python uninstall --yes harmony

FROM base AS operator
ARG SITE_PACKAGES
COPY --from=operator-packages /opt/harmony /opt/harmony
COPY crds/harmony_api ${SITE_PACKAGES}/harmony_api
COPY operator/harmony_planner ${SITE_PACKAGES}/harmony_planner
COPY operator/harmony_operator ${SITE_PACKAGES}/harmony_operator
RUN python -m compileall -q ${SITE_PACKAGES}/harmony_*
USER 10001:10001
ENTRYPOINT ["python", "-m", "harmony_operator"]

FROM base AS sidecar
ARG SITE_PACKAGES
COPY --from=sidecar-packages /opt/harmony /opt/harmony
COPY crds/harmony_api ${SITE_PACKAGES}/harmony_api
COPY worker_image/harmony_sidecar ${SITE_PACKAGES}/harmony_sidecar
RUN python -m compileall -q ${SITE_PACKAGES}/harmony_*
USER 10001:10001
ENTRYPOINT ["python", "-m", "harmony_sidecar"]

FROM worker-packages AS worker
ARG SITE_PACKAGES
ENV HARMONY_EXAMPLES=/opt/harmony/examples NVIDIA_DRIVER_CAPABILITIES=compute,utility
COPY crds/harmony_api ${SITE_PACKAGES}/harmony_api
COPY worker_image/harmony_worker ${SITE_PACKAGES}/harmony_worker
COPY worker_image/examples ${HARMONY_EXAMPLES}
RUN python -m compileall -q ${SITE_PACKAGES}/harmony_*
USER 10001:10001
CMD ["python"]
