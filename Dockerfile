# docker build -t docaudit . ; docs/pipelines.md says how it is run.
ARG PYTHON=python:3.11.15-slim-bookworm@sha256:d29f48a31a8b408ed19272ca1e7b10ebae13b240a27e862d3d4217c528e2e0c3

FROM ${PYTHON} AS build
# An index that holds torch's builds for CPUs, as PyTorch's installation page names it: the image is smaller by
# gigabytes. Empty: the build of the default index, which runs on NVIDIA GPUs too.
ARG TORCH_INDEX=
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_COMPILE=1
RUN python -I -m venv /opt/build && python -I -m venv /opt/docaudit
ENV PATH=/opt/docaudit/bin:$PATH
WORKDIR /src
COPY constraints.txt ./
COPY locks locks
# By hash, all but torch from an index of yours: the hashes of its builds are in no lock of ours.
RUN if [ -n "$TORCH_INDEX" ]; then \
        pip install --no-deps --index-url "$TORCH_INDEX" -c constraints.txt torch; \
    else \
        pip install --require-hashes --no-deps -r locks/torch.txt; \
    fi
RUN pip install --require-hashes --no-deps -r locks/docaudit.txt \
    && /opt/build/bin/pip install --require-hashes --no-deps -r locks/build.txt
# What .dockerignore lets through.
COPY . .
RUN /opt/build/bin/pip wheel --no-build-isolation --no-deps --wheel-dir /tmp/wheel . \
    && pip install --no-deps /tmp/wheel/*.whl

FROM ${PYTHON}
# pango draws the PDF, in DejaVu where the report's own fonts lack a character; Tesseract proves that an answer is gone.
# Unpinned, as a release of Debian keeps one version of each.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        fonts-dejavu-core libharfbuzz-subset0 libpango-1.0-0 libpangoft2-1.0-0 tesseract-ocr \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 1000 --create-home docaudit
COPY --from=build /opt/docaudit /opt/docaudit
ENV PATH=/opt/docaudit/bin:$PATH HF_HUB_OFFLINE=1 PYTHONDONTWRITEBYTECODE=1 PYTHONSAFEPATH=1
USER 1000
WORKDIR /work
ENTRYPOINT ["docaudit"]
CMD ["--help"]
