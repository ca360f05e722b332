// silu(gate) times up -> hidden, a value a thread; the gate clamped from above, up from both sides. limit (1).
// grid: values rounded up; threadgroup: THREADS.

const uint i = thread_position_in_grid.x, rows = gate_shape[0], width = gate_shape[1];
if (i < rows * width) hidden[i] = swiglu(gate[i], up[i], limit[0]);
