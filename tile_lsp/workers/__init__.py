"""Child processes with limits: the compile worker (owns TVM) and the run worker (owns torch and the GPU). May import: tilec."""
