// The operations on weight matrices: a pool, a level and the scratch they need. No Python here.
//
// Shapes are the caller's promise (bindings.cpp checks them). Results do not depend on threads, batch or level.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "level.h"
#include "matrix.h"
#include "pool.h"
#include "scratch.h"

namespace whitedwarf {

// Levels this CPU and operating system can run, best last.
std::vector<const Level*> available_levels();

// Activations in whichever form the weights want.
struct Activations {
    FloatRows floats;
    IntegerRows integers;  // granule 0 when floats are to be used
};

// Which experts each token uses, and how much of each.
struct Routing {
    int64_t tokens;
    int64_t slots;
    const int32_t* ids;         // (tokens, slots), -1 = none this time
    const float* weights;       // (tokens, slots)
    uint8_t* is_met = nullptr;  // (tokens,), in and out: whether out has a sum of this token already; null = of none
};

struct FeedForward {
    MatrixView gate, up, down;
    float limit;  // infinity = none
};

class Kernels {
public:
    Kernels(int threads, const Level& level) : pool_(threads), level_(level), scratch_(threads) {}

    Pool& pool() { return pool_; }
    const Level& level() const { return level_; }
    std::mutex& mutex() { return mutex_; }  // held by whoever calls into the pool
    uint8_t* thread_scratch(int thread) { return scratch_[thread].data(); }
    void reserve_thread_scratch(int64_t bytes);

    // x (rows, groups * w.cols), out (rows, w.rows); group g's rows of w meet group g's columns of x.
    void linear(const float* x, int64_t rows, const MatrixView& w, int64_t groups, float* out, bool quality);
    // out (tokens, D): sum over a token's experts, in ascending order, of down(weight * swiglu(gate x, up x)); last the
    // shared expert's, with weight one. shared may be null. Several calls, each with the experts behind those of the last
    // one and the same is_met, give the bits of one call; the shared expert belongs to the last. A token that met no
    // expert yet has no sum: its row of out is left alone.
    void experts(const float* x, const Routing& routing, const FeedForward& routed, const FeedForward* shared,
                 float* out, bool quality);
    void decode_rows(const MatrixView& w, const int32_t* ids, int64_t count, float* out);  // ids null = all rows
    uint64_t read_all(const uint8_t* bytes, int64_t size);  // reads every byte with all threads; the xor of its words
    // q (rows, cols), scales (rows, cols / 32): the activations as every level rounds them.
    void quantise_in_order(const float* x, int64_t rows, int64_t cols, int8_t* q, float* scales);
    void quantise(const float* x, int64_t rows, int64_t cols, const IntegerRows& out);

    // Building blocks of the above.
    IntegerRows reserve_integers(Scratch& scratch, int64_t rows, int64_t cols, int granule);
    Activations prepare(const float* x, int64_t rows, const MatrixView& w, bool quality, Scratch& scratch);
    void multiply_tile(const MatrixView& w, int64_t expert, int64_t first_row, int num_rows, const Activations& x,
                       RowList list, Output out, uint8_t* scratch) const;

private:
    class Inputs;  // experts.cpp

    Pool pool_;
    const Level& level_;
    std::mutex mutex_;
    std::vector<Scratch> scratch_;  // one per thread
    Scratch input_, middle_, second_middle_, lists_;
    Scratch inputs_[2], gathered_[2];  // of experts, for each granule
};

}  // namespace whitedwarf
