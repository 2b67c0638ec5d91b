# docker build -t tidemark . && docker run --rm -v "$PWD:/data" -w /data tidemark quantize model.onnx --data samples.npy -o int8.onnx
FROM debian:12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends \
    gcc libc6-dev pkg-config meson ninja-build python3 git ca-certificates \
    libcjson-dev libhdf5-dev libdnnl-dev libprotobuf-c-dev protobuf-c-compiler libxxhash-dev libssl-dev libzip-dev \
    libpng-dev libjpeg-dev libyaml-dev libseccomp-dev
COPY . /src
RUN meson setup /build /src --prefix=/usr/local --buildtype=release --strip -Dtests=false -Dmpi=disabled -Dpython=disabled \
    -Ddefault_library=static -Dhdf5=enabled -Donednn=enabled -Dimages=enabled -Dyaml=enabled -Dseccomp=enabled \
    && DESTDIR=/installed meson install -C /build --tags runtime,man

FROM debian:12-slim
RUN apt-get update && apt-get install -y --no-install-recommends \
    libcjson1 libhdf5-103-1 libhdf5-hl-100 libdnnl2 libprotobuf-c1 libxxhash0 libssl3 libzip4 libpng16-16 libjpeg62-turbo libyaml-0-2 libseccomp2 libgomp1 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /installed/usr/local /usr/local
RUN tidemark doctor
ENTRYPOINT ["tidemark"]
