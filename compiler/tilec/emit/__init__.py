"""Lowered program to TVM TIRx host and device modules, CUDA text, LLVM. May import: source, ir, analysis, target, tvm_compat."""
