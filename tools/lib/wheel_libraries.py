# SPDX-License-Identifier: Apache-2.0
"""The libraries that a wheel has in it: Debian's source package, and how only what is in use is built."""
from dataclasses import dataclass, field, replace


@dataclass
class Library:
    source: str  # Debian's source package
    pkgconfig: str  # as meson.build names it
    links: str
    license: str  # SPDX
    symbol: str  # a function that a program has if it has the library
    options: list[str] = field(default_factory=list)  # of CMake, of Configure, or of the compiler
    needs: list[str] = field(default_factory=list)
    build: str = "cmake"  # or "files": compiled one by one, as there is nothing to configure; or "openssl"
    files: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)  # of "files": where each is installed
    flags: str = "-O2"  # of the compiler
    version: str = ""
    sha256: str = ""  # of the archive

    def record(self) -> dict[str, str]:
        return {"name": self.source, "version": self.version, "license": self.license, "sha256": self.sha256, "symbol": self.symbol}


# In the order of building.
LIBRARIES = [
    Library("zlib", "zlib", "-lz", "Zlib", "inflate", build="files", files=["[!g]*.c"], headers={"zlib.h": "", "zconf.h": ""}),
    Library("cjson", "libcjson", "-lcjson", "MIT", "cJSON_Delete", build="files", files=["cJSON.c"], headers={"cJSON.h": "cjson"}),
    Library("xxhash", "libxxhash", "-lxxhash", "BSD-2-Clause", "XXH3_128bits_update", build="files", files=["xxhash.c"],
            headers={"xxhash.h": "", "xxh3.h": ""}),
    Library("protobuf-c", "libprotobuf-c", "-lprotobuf-c", "BSD-2-Clause", "protobuf_c_message_unpack", build="files",
            files=["protobuf-c/protobuf-c.c"], headers={"protobuf-c/protobuf-c.h": "protobuf-c"}),
    Library("libyaml", "yaml-0.1", "-lyaml", "MIT", "yaml_parser_parse",
            ["-Iinclude", "-DYAML_VERSION_MAJOR=0", "-DYAML_VERSION_MINOR=2", "-DYAML_VERSION_PATCH=5", '-DYAML_VERSION_STRING="0.2.5"'],
            build="files", files=["src/*.c"], headers={"include/yaml.h": ""}),
    Library("libpng1.6", "libpng", "-lpng -lm", "libpng-2.0", "png_read_info", ["-DPNG_INTEL_SSE_OPT=1"], ["zlib"], build="files",
            files=["png.c", "png[!t]*.c", "pngtrans.c", "intel/*.c"],
            headers={"png.h": "", "pngconf.h": "", "scripts/pnglibconf.h.prebuilt": "pnglibconf.h"}),
    # Of OpenSSL, SHA-256 alone is in use.
    Library("openssl", "libcrypto", "-lcrypto", "Apache-2.0", "SHA256_Update", ["linux-x86_64", "no-shared", "no-tests"],
            build="openssl", files=["sha/libcrypto-lib-sha256.o", "sha/libcrypto-lib-sha256-x86_64.o", "libcrypto-lib-cpuid.o", "libcrypto-lib-ctype.o",
                                    "libcrypto-lib-x86_64cpuid.o"]),
    Library("libzip", "libzip", "-lzip", "BSD-3-Clause", "zip_fopen_index",
            ["-DENABLE_COMMONCRYPTO=OFF", "-DENABLE_GNUTLS=OFF", "-DENABLE_MBEDTLS=OFF", "-DENABLE_OPENSSL=OFF", "-DENABLE_BZIP2=OFF",
             "-DENABLE_LZMA=OFF", "-DBUILD_TOOLS=OFF", "-DBUILD_REGRESS=OFF", "-DBUILD_EXAMPLES=OFF", "-DBUILD_DOC=OFF"],
            ["zlib"]),
    Library("libjpeg-turbo", "libjpeg", "-ljpeg", "IJG AND BSD-3-Clause AND Zlib", "jpeg_read_scanlines",
            ["-DENABLE_SHARED=OFF", "-DWITH_TURBOJPEG=OFF"]),
    Library("hdf5", "hdf5", "-lhdf5_hl -lhdf5 -lm -ldl", "BSD-3-Clause", "H5Fopen",
            ["-DHDF5_ENABLE_Z_LIB_SUPPORT=ON", "-DHDF5_ENABLE_SZIP_SUPPORT=OFF", "-DHDF5_ENABLE_ROS3_VFD=OFF", "-DHDF5_ENABLE_HDFS=OFF",
             "-DHDF5_BUILD_TOOLS=OFF", "-DHDF5_BUILD_EXAMPLES=OFF",
             "-DHDF5_BUILD_CPP_LIB=OFF", "-DHDF5_BUILD_FORTRAN=OFF", "-DHDF5_ENABLE_EMBEDDED_LIBINFO=OFF",
             "-DONLY_SHARED_LIBS=OFF"],
            ["zlib"], flags="-O2 -Wno-implicit-int"),
    # Without threads of its own, and of its functions only float32 inference (onednn_float32.py). Most of it writes machine code, which
    # is the same with -Os; that compiles in less time and is a third smaller.
    Library("onednn", "dnnl", "-ldnnl -lc++", "Apache-2.0", "dnnl_primitive_execute",
            ["-DDNNL_LIBRARY_TYPE=STATIC", "-DDNNL_CPU_RUNTIME=SEQ", "-DDNNL_BUILD_EXAMPLES=OFF", "-DDNNL_BUILD_TESTS=OFF",
             "-DDNNL_ENABLE_WORKLOAD=INFERENCE", "-DDNNL_ENABLE_PRIMITIVE=CONVOLUTION;DECONVOLUTION;INNER_PRODUCT;MATMUL;POOLING;REORDER",
             "-DDNNL_ARCH_OPT_FLAGS=", "-DDNNL_ENABLE_JIT_PROFILING=OFF", "-DDNNL_ENABLE_ITT_TASKS=OFF"],
            flags="-Os"),
]

# What is built otherwise for a processor: members of Library by source.
ELSEWHERE = {
    "aarch64": {
        "libpng1.6": {"options": ["-DPNG_ARM_NEON_OPT=0"], "files": ["png.c", "png[!t]*.c", "pngtrans.c"]},
        "openssl": {"options": ["linux-aarch64", "no-shared", "no-tests"],
                    "files": ["sha/libcrypto-lib-sha256.o", "sha/libcrypto-lib-sha256-armv8.o", "libcrypto-lib-cpuid.o", "libcrypto-lib-ctype.o",
                              "libcrypto-lib-armcap.o", "libcrypto-lib-arm64cpuid.o"]},
    },
}


def libraries(arch: str, onednn: bool) -> list[Library]:
    changes = ELSEWHERE.get(arch, {})
    return [replace(library, **changes.get(library.source, {})) for library in LIBRARIES if onednn or library.source != "onednn"]
