// The part of Metal that our kernels use, for g++ on a CPU: names, vectors, simdgroups and threadgroups.
//
// A threadgroup runs as fibers, one per thread, each until it must wait for the others of its simdgroup or group. What
// waits for ever is told. Threadgroup memory is filled with NaN before every group, and groups run their fibers forwards or
// backwards as asked, so that a forgotten barrier shows. Knows nothing of the speed or the rounding of a GPU.

#ifndef METAL_SHIM
#define METAL_SHIM

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

namespace metal {

using uint = std::uint32_t;
using ulong = std::uint64_t;
using uchar = std::uint8_t;
using ushort = std::uint16_t;
using half = _Float16;
using float16_t = half;

template <typename T, int N>
struct alignas(sizeof(T) * (N == 3 ? 4 : N)) Vector {
  T parts[N];
  Vector() = default;
  explicit Vector(T value) { std::fill(parts, parts + N, value); }
  template <typename... Rest, typename = std::enable_if_t<sizeof...(Rest) + 1 == N && (N > 1)>>
  Vector(T first, Rest... rest) : parts{first, T(rest)...} {}
  template <typename U>
  explicit Vector(const Vector<U, N>& other) {
    for (int i = 0; i < N; i++) parts[i] = T(other.parts[i]);
  }
  T& operator[](int i) { return parts[i]; }
  T operator[](int i) const { return parts[i]; }
};

#define METAL_SHIM_OPERATOR(OP)                                                            \
  template <typename T, int N>                                                             \
  Vector<T, N> operator OP(Vector<T, N> a, Vector<T, N> b) {                               \
    for (int i = 0; i < N; i++) a.parts[i] = T(a.parts[i] OP b.parts[i]);                  \
    return a;                                                                              \
  }                                                                                        \
  template <typename T, int N>                                                             \
  Vector<T, N> operator OP(Vector<T, N> a, T b) { return a OP Vector<T, N>(b); }           \
  template <typename T, int N>                                                             \
  Vector<T, N> operator OP(T a, Vector<T, N> b) { return Vector<T, N>(a) OP b; }           \
  template <typename T, int N>                                                             \
  Vector<T, N>& operator OP##=(Vector<T, N>& a, Vector<T, N> b) { return a = a OP b; }     \
  template <typename T, int N>                                                             \
  Vector<T, N>& operator OP##=(Vector<T, N>& a, T b) { return a = a OP b; }
METAL_SHIM_OPERATOR(+)
METAL_SHIM_OPERATOR(-)
METAL_SHIM_OPERATOR(*)
METAL_SHIM_OPERATOR(/)
#undef METAL_SHIM_OPERATOR
#define METAL_SHIM_OPERATOR(OP)                                                            \
  template <int N>                                                                         \
  Vector<uint, N> operator OP(Vector<uint, N> a, Vector<uint, N> b) {                      \
    for (int i = 0; i < N; i++) a.parts[i] = a.parts[i] OP b.parts[i];                     \
    return a;                                                                              \
  }                                                                                        \
  template <int N>                                                                         \
  Vector<uint, N> operator OP(Vector<uint, N> a, uint b) { return a OP Vector<uint, N>(b); }
METAL_SHIM_OPERATOR(>>)
METAL_SHIM_OPERATOR(<<)
METAL_SHIM_OPERATOR(&)
METAL_SHIM_OPERATOR(|)
#undef METAL_SHIM_OPERATOR

struct uint2 {
  uint x, y;
  uint2(uint x, uint y) : x(x), y(y) {}
};
using float2 = Vector<float, 2>;
using float4 = Vector<float, 4>;
using half4 = Vector<half, 4>;
using uint4 = Vector<uint, 4>;
using ushort4 = Vector<ushort, 4>;
using uchar4 = Vector<uchar, 4>;
using char4 = Vector<std::int8_t, 4>;
using ulong2 = Vector<ulong, 2>;
struct uint3 {
  uint x, y, z;
};

inline float dot(float4 a, float4 b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]; }
inline uint popcount(uint x) { return uint(__builtin_popcount(x)); }
inline float rsqrt(float x) { return 1 / std::sqrt(x); }
using std::exp;
using std::fabs;
using std::isnan;
using std::log;
using std::rint;
using std::sqrt;
template <typename T>
T min(T a, T b) { return b < a ? b : a; }
template <typename T>
T max(T a, T b) { return a < b ? b : a; }
template <typename T>
T clamp(T x, T low, T high) { return min(max(x, low), high); }

template <typename To, typename From>
To as_type(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}

// ---- threads ----

struct Meeting {  // of threads that exchange a value; two of them in turn, so that nobody writes what another still reads
  std::vector<std::uint64_t> values[2];
  unsigned arrived[2] = {0, 0};
  explicit Meeting(unsigned size) {
    for (auto& part : values) part.resize(size);
  }
  unsigned size() const { return unsigned(values[0].size()); }
};

constexpr std::size_t STACK_BYTES = 128 * 1024;

struct Fiber {
  ucontext_t context;  // where it begins
  jmp_buf place;       // where it goes on: jumps ask nothing of the system, as changes of context do
  std::unique_ptr<char[]> stack;  // of STACK_BYTES, and only as much of it is touched as is used
  bool has_begun = false, is_done = false;
  unsigned simd_turn = 0, group_turn = 0;
};

struct Group {
  uint3 position, size, grid;
  std::vector<Fiber> fibers;
  std::vector<Meeting> simds;
  Meeting all{0};
  unsigned current = 0, progress = 0;
  jmp_buf scheduler;
  const std::function<void()>* body = nullptr;
};

inline Group* running = nullptr;

struct SharedMemory {
  void* start;
  std::size_t bytes;
};
inline std::vector<SharedMemory>& shared_memories() {
  static std::vector<SharedMemory> all;
  return all;
}

template <typename T, std::size_t N>
struct Shared {  // threadgroup memory
  T values[N];
  Shared() {
    shared_memories().push_back({values, sizeof(values)});
    std::memset(values, 0xFF, sizeof(values));
  }
  operator T*() { return values; }
};

inline void give_way() {
  if (!_setjmp(running->fibers[running->current].place)) _longjmp(running->scheduler, 1);
}

inline void go_on(Fiber& fiber) {
  if (_setjmp(running->scheduler)) return;
  if (fiber.has_begun) _longjmp(fiber.place, 1);
  fiber.has_begun = true;
  setcontext(&fiber.context);
}

inline const std::vector<std::uint64_t>& meet(Meeting& meeting, unsigned& turn, unsigned place, std::uint64_t value) {
  const unsigned own = turn++ & 1;
  meeting.values[own][place] = value;
  running->progress++;
  if (++meeting.arrived[own] == meeting.size()) meeting.arrived[1 - own] = 0;
  while (meeting.arrived[own] < meeting.size()) give_way();
  return meeting.values[own];
}

inline unsigned lane() { return running->current % 32; }

inline const std::vector<std::uint64_t>& meet_simd(std::uint64_t value) {
  Fiber& fiber = running->fibers[running->current];
  return meet(running->simds[running->current / 32], fiber.simd_turn, lane(), value);
}

template <typename T>
std::uint64_t packed(T value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <typename T>
T unpacked(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

template <typename T>
T simd_shuffle(T value, unsigned from) { return unpacked<T>(meet_simd(packed(value))[from]); }
template <typename T>
T simd_shuffle_xor(T value, unsigned mask) { return simd_shuffle(value, lane() ^ mask); }
template <typename T>
T simd_broadcast(T value, unsigned from) { return simd_shuffle(value, from); }
template <typename T, typename Join>
T simd_joined(T value, Join join) {  // in pairs, then pairs of pairs: how a GPU does it is not said
  const auto& bits = meet_simd(packed(value));
  const unsigned count = unsigned(bits.size());
  T parts[32];
  for (unsigned i = 0; i < count; i++) parts[i] = unpacked<T>(bits[i]);
  for (unsigned half = count / 2; half; half /= 2)
    for (unsigned i = 0; i < half; i++) parts[i] = join(parts[i], parts[i + half]);
  return parts[0];
}
template <typename T>
T simd_sum(T value) { return simd_joined(value, [](T a, T b) { return a + b; }); }
template <typename T>
T simd_max(T value) { return simd_joined(value, [](T a, T b) { return max(a, b); }); }
template <typename T>
T simd_min(T value) { return simd_joined(value, [](T a, T b) { return min(a, b); }); }

template <typename T>
T simd_prefix_exclusive_sum(T value) {
  const auto& bits = meet_simd(packed(value));
  T sum = 0;
  for (unsigned i = 0; i < lane(); i++) sum += unpacked<T>(bits[i]);
  return sum;
}

// Threads of a group run one at a time here: whatever they do is atomic.
struct atomic_uint {
  uint value;
};
enum memory_order { memory_order_relaxed };
inline void atomic_store_explicit(atomic_uint* to, uint value, memory_order) { to->value = value; }
inline uint atomic_load_explicit(const atomic_uint* from, memory_order) { return from->value; }
inline uint atomic_fetch_add_explicit(atomic_uint* to, uint value, memory_order) {
  const uint before = to->value;
  to->value += value;
  return before;
}

enum class mem_flags { mem_none, mem_device, mem_threadgroup };
inline void threadgroup_barrier(mem_flags) {
  meet(running->all, running->fibers[running->current].group_turn, running->current, 0);
}
inline void simdgroup_barrier(mem_flags) { meet_simd(0); }

// ---- matrices of a simdgroup: here the first lane holds all of one, and works alone ----

template <typename T, int Columns, int Rows>
struct simdgroup_matrix {
  T at[Rows][Columns];
};
using simdgroup_float8x8 = simdgroup_matrix<float, 8, 8>;

template <typename T, int Columns, int Rows>
simdgroup_matrix<T, Columns, Rows> make_filled_simdgroup_matrix(T value) {
  simdgroup_matrix<T, Columns, Rows> matrix;
  std::fill(&matrix.at[0][0], &matrix.at[0][0] + Rows * Columns, value);
  return matrix;
}
inline void simdgroup_load(
    simdgroup_float8x8& to, const float* from, ulong stride = 8, ulong2 origin = ulong2(0, 0), bool transpose = false) {
  if (lane() != 0) return;
  for (unsigned r = 0; r < 8; r++)
    for (unsigned c = 0; c < 8; c++) {
      const float value = from[(origin[1] + r) * stride + origin[0] + c];
      (transpose ? to.at[c][r] : to.at[r][c]) = value;
    }
}
inline void simdgroup_store(const simdgroup_float8x8& from, float* to, ulong stride = 8) {
  meet_simd(0);  // all must come this way
  if (lane() != 0) return;
  for (unsigned r = 0; r < 8; r++)
    for (unsigned c = 0; c < 8; c++) to[r * stride + c] = from.at[r][c];
}
inline void simdgroup_multiply_accumulate(
    simdgroup_float8x8& d, const simdgroup_float8x8& a, const simdgroup_float8x8& b, const simdgroup_float8x8& c) {
  if (lane() != 0) return;
  simdgroup_float8x8 sum = c;
  for (unsigned r = 0; r < 8; r++)
    for (unsigned k = 0; k < 8; k++)
      for (unsigned j = 0; j < 8; j++) sum.at[r][j] += a.at[r][k] * b.at[k][j];
  d = sum;
}

// ---- a launch ----

inline uint3 own_place() {
  const uint index = running->current, x = running->size.x, y = running->size.y;
  return {index % x, index / x % y, index / (x * y)};
}
inline uint3 grid_place() {
  const uint3 own = own_place(), group = running->position, size = running->size;
  return {group.x * size.x + own.x, group.y * size.y + own.y, group.z * size.z + own.z};
}

inline uint3 groups() {
  const uint3 grid = running->grid, size = running->size;
  return {grid.x / size.x, grid.y / size.y, grid.z / size.z};
}

inline void fiber_main() {
  (*running->body)();
  running->fibers[running->current].is_done = true;
  running->progress++;
  give_way();
}

// Threads of a group that have all waited in vain: one of them left, or went another way.
[[noreturn]] inline void stuck() {
  std::fprintf(stderr, "metal shim: threads of a group wait for others that never come (a barrier under a branch?)\n");
  std::abort();
}

inline void run_group(Group& group, bool backwards) {
  const unsigned count = unsigned(group.fibers.size());
  for (auto& memory : shared_memories()) std::memset(memory.start, 0xFF, memory.bytes);
  for (auto& meeting : group.simds) meeting.arrived[0] = meeting.arrived[1] = 0;
  group.all.arrived[0] = group.all.arrived[1] = 0;
  for (auto& fiber : group.fibers) {
    fiber.has_begun = fiber.is_done = false;
    fiber.simd_turn = fiber.group_turn = 0;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = STACK_BYTES;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, fiber_main, 0);
  }
  for (unsigned done = 0; done < count;) {
    const unsigned before = group.progress;
    done = 0;
    for (unsigned i = 0; i < count; i++) {
      group.current = backwards ? count - 1 - i : i;
      Fiber& fiber = group.fibers[group.current];
      if (!fiber.is_done) go_on(fiber);
      done += fiber.is_done;
    }
    if (done < count && group.progress == before) stuck();
  }
}

inline void run_grid(uint3 grid, uint3 size, bool backwards, const std::function<void()>& body) {
  const unsigned count = size.x * size.y * size.z;
  Group group;
  group.size = size;
  group.grid = grid;
  group.body = &body;
  group.fibers.resize(count);
  for (auto& fiber : group.fibers) fiber.stack.reset(new char[STACK_BYTES]);
  for (unsigned i = 0; i < count; i += 32) group.simds.emplace_back(std::min(32u, count - i));
  group.all = Meeting(count);
  running = &group;
  for (uint z = 0; z < grid.z / size.z; z++)
    for (uint y = 0; y < grid.y / size.y; y++)
      for (uint x = 0; x < grid.x / size.x; x++) {
        group.position = {x, y, z};
        run_group(group, backwards);
      }
  running = nullptr;
}

}  // namespace metal

using metal::float16_t;
using metal::uint3;
using metal::half;

#define device
#define constant
#define threadgroup
#define thread

#endif
