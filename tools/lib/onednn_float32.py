# SPDX-License-Identifier: Apache-2.0
"""Leaves float32 inference in oneDNN 2.6's sources: takes other implementations off its lists, and removes the sources that nothing
names then. What is left chooses and runs the same kernels. A source that would still be needed is a symbol that the linker misses."""
import re
from pathlib import Path

# Deconvolution runs the convolution's backward pass over data; the other backward passes, other types and other processors go.
UNUSED = re.compile(r"AMX|bf16|x8s8s32x|int8|i8i8|vnni|<s32>|<s8|<u8|_fused_|_bwd_weights|pooling_bwd|inner_product_bwd|AARCH64")
GONE = """
    reorder/cpu_reorder_comp_*  reorder/cpu_reorder_regular_[bsu]*  reorder/cpu_reorder_regular_f16*  reorder/cpu_reorder_regular_f32_[su]*
    reorder/cpu_reorder_regular_f32_*16*  matmul/*x8s8*  matmul/*bf16*  matmul/*int8*  *int8*
    *x8s8s32x*  x64/*x8s8s32x*  x64/*bf16*conv*  x64/*amx*conv*  x64/*i8i8*  *inner_product_bwd*
    *batch_norm*  *layer_norm*  *softmax*  *resampling*  *lrn*  *shuffle*  *reduction*  ref_eltwise*  ref_prelu*  ref_binary*  simple_sum*
    simple_concat*  x64/*batch_norm*  x64/*layer_norm*  x64/*softmax*  x64/*resampling*  x64/*binary*  x64/jit_uni_eltwise*  x64/*reduction*
    x64/gemm/s8x8s32/*  x64/gemm/bf16/*  x64/gemm/amx/*  gemm/s8x8s32/*
    rnn/*  x64/rnn/*  x64/lrn/*  x64/prelu/*  x64/shuffle/*
""".split()


def reduce(source: Path) -> None:
    """Of the unpacked archive."""
    cpu = source / "src/cpu"
    for path in [*cpu.glob("cpu_*_list.cpp"), cpu / "matmul/cpu_matmul_list.cpp"]:
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if not ("CPU_INSTANCE" in line and "define" not in line and UNUSED.search(line))))
    reorders = cpu / "reorder/cpu_reorder.cpp"
    reorders.write_text(re.sub(r"^\s*\{\{(?!f32, f32, 0).*impl_list_map\(\)\},\n", "", reorders.read_text(), flags=re.M))
    for pattern in GONE:
        for path in cpu.glob(pattern + ".cpp"):
            if not path.name.endswith("_list.cpp"):
                path.unlink()
    # CMake wants a source in each of these folders
    for folder in ("rnn", "x64/rnn", "x64/lrn", "x64/prelu", "x64/shuffle"):
        (cpu / folder / "none.cpp").write_text("")
    # These write machine code once a process, in functions of thousands of calls, over which an optimizer takes minutes
    for path in (cpu / "x64/gemm/f32").glob("*_kern*.cpp"):
        path.write_text(path.read_text().replace("\nnamespace dnnl {", "\n#pragma clang optimize off\nnamespace dnnl {", 1))
    # This is for 8 bits and does nothing for float32
    driver = cpu / "x64/gemm/gemm_driver.cpp"
    driver.write_text(driver.read_text().replace(" && jump_to_gemv_s8x8s32(arg))", " && false)"))
