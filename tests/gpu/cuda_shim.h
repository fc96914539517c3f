// Runs CUDA kernels on the CPU, for tests: include it before the .cu file and name each kernel with EXPORT(kernel).
//
// The threads of a block are fibers that run one after the other, in an order drawn from a seed, and change at barriers
// and warp-wide operations; blocks run one after the other. A barrier or warp-wide operation that not all threads reach
// ends the process with a message, as it would hang or misbehave on a GPU. What it cannot show: wrong memory ordering,
// and how fast anything is. Only what the kernels use is here. x86-64 only (the switch of fibers is in assembly).
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static

struct Index { unsigned x; };
static Index threadIdx, blockIdx;

extern "C" void shim_switch(void** save_stack, void* load_stack);
asm(R"(.text
.globl shim_switch
.type shim_switch,@function
shim_switch:
 pushq %rbp
 pushq %rbx
 pushq %r12
 pushq %r13
 pushq %r14
 pushq %r15
 movq %rsp,(%rdi)
 movq %rsi,%rsp
 popq %r15
 popq %r14
 popq %r13
 popq %r12
 popq %rbx
 popq %rbp
 ret
)");

namespace shim {

const unsigned warp_size = 32;
const size_t stack_bytes = 32768;

enum State { running, at_barrier, at_warp_operation, finished };

struct Fiber {
  void* stack_top;
  std::vector<char> stack;
  State state;
  unsigned exchanges;  // warp-wide operations so far
};

static std::vector<Fiber> fibers;
static void* scheduler_stack;
static unsigned current;
static std::function<void()> body;
// what each lane handed in; two sets in turn, so that a fast lane cannot overwrite what a slow one has yet to read
static unsigned char lanes[2][32][warp_size][8];

static void enter()
{
  body();
  fibers[current].state = finished;
  shim_switch(&fibers[current].stack_top, scheduler_stack);
}

static void wait(State state)
{
  fibers[current].state = state;
  shim_switch(&fibers[current].stack_top, scheduler_stack);
}

[[noreturn]] static void fail(const char* what)
{
  fprintf(stderr, "cuda_shim: %s (block %u)\n", what, blockIdx.x);
  abort();
}

static void start(Fiber& fiber)
{
  fiber.stack.resize(stack_bytes);
  void** top = (void**)(((uintptr_t)(fiber.stack.data() + stack_bytes)) & ~(uintptr_t)63);
  *--top = nullptr;  // where enter would return to; keeps the stack aligned
  *--top = (void*)enter;
  for (int k = 0; k < 6; ++k) *--top = nullptr;  // the registers that shim_switch restores
  fiber.stack_top = top;
  fiber.state = running;
  fiber.exchanges = 0;
}

// Let the warps go on whose threads all wait at a warp-wide operation; true if there were any.
static bool release_warps(unsigned threads)
{
  bool any = false;
  for (unsigned first = 0; first < threads; first += warp_size) {
    unsigned waiting = 0, others = 0;
    for (unsigned t = first; t < first + warp_size; ++t) {
      waiting += fibers[t].state == at_warp_operation;
      others += fibers[t].state == at_barrier || fibers[t].state == finished;
    }
    if (waiting && others) fail("a warp-wide operation that not all threads of the warp reach");
    if (waiting != warp_size) continue;
    for (unsigned t = first; t < first + warp_size; ++t) {
      if (fibers[t].exchanges != fibers[first].exchanges) fail("threads of a warp are at different operations");
      fibers[t].state = running;
    }
    any = true;
  }
  return any;
}

static void run(unsigned blocks, unsigned threads, unsigned seed, std::function<void()> kernel)
{
  if (threads % warp_size || threads > 1024) fail("threads must be a multiple of 32, at most 1024");
  body = std::move(kernel);
  if (fibers.size() < threads) fibers.resize(threads);
  uint64_t random = seed * 2654435761u + 1;
  for (unsigned block = 0; block < blocks; ++block) {
    blockIdx.x = block;
    for (unsigned t = 0; t < threads; ++t) start(fibers[t]);
    for (;;) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      const unsigned offset = seed ? random >> 33 : 0, twist = seed ? random >> 45 : 0;
      for (unsigned k = 0; k < threads; ++k) {
        // warps in turn from a drawn one on, lanes in a drawn order
        const unsigned warp = (k / warp_size + offset) % (threads / warp_size), lane = (k ^ twist) % warp_size;
        current = warp * warp_size + lane;
        if (fibers[current].state != running) continue;
        threadIdx.x = current;
        shim_switch(&scheduler_stack, fibers[current].stack_top);
      }
      if (release_warps(threads)) continue;
      unsigned waiting = 0, done = 0;
      for (unsigned t = 0; t < threads; ++t) {
        waiting += fibers[t].state == at_barrier;
        done += fibers[t].state == finished;
      }
      if (done == threads) break;
      if (waiting != threads) fail("a barrier that not all threads of the block reach");
      for (unsigned t = 0; t < threads; ++t) fibers[t].state = running;
    }
  }
}

// Hand in a value, wait for the other lanes of the warp, and return where all their values are.
template <class T>
static const unsigned char (*exchange(T value))[8]
{
  static_assert(sizeof(T) <= 8, "");
  const unsigned warp = current / warp_size, set = fibers[current].exchanges++ % 2;
  memcpy(lanes[set][warp][current % warp_size], &value, sizeof(T));
  wait(at_warp_operation);
  return lanes[set][warp];
}

template <class T> struct Letter;  // NumPy's name of an argument's type; pointers get a star
template <> struct Letter<int> { static std::string text() { return "i4"; } };
template <> struct Letter<unsigned> { static std::string text() { return "u4"; } };
template <> struct Letter<long long> { static std::string text() { return "i8"; } };
template <> struct Letter<float> { static std::string text() { return "f4"; } };
template <> struct Letter<double> { static std::string text() { return "f8"; } };
template <class T> struct Letter<T*> { static std::string text() { return Letter<std::remove_const_t<T>>::text() + "*"; } };

template <class... A>
static const char* signature(void (*)(A...))
{
  static std::string text = ((Letter<A>::text() + " ") + ...);
  return text.c_str();
}

template <class... A, size_t... I>
static void call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>)
{
  kernel(*(A*)arguments[I]...);
}

template <class... A>
static void launch(void (*kernel)(A...), unsigned blocks, unsigned threads, unsigned seed, void** arguments)
{
  run(blocks, threads, seed, [=] { call(kernel, arguments, std::index_sequence_for<A...>{}); });
}

}  // namespace shim

#define EXPORT(kernel)                                                                              \
  extern "C" const char* signature_of_##kernel() { return shim::signature(kernel); }                \
  extern "C" void launch_##kernel(unsigned blocks, unsigned threads, unsigned seed, void** values)  \
  {                                                                                                 \
    shim::launch(kernel, blocks, threads, seed, values);                                            \
  }

static inline void __syncthreads() { shim::wait(shim::at_barrier); }

template <class T>
static inline T __shfl_xor_sync(unsigned, T value, int lane_mask)
{
  const unsigned lane = shim::current % shim::warp_size;
  T other;
  memcpy(&other, shim::exchange(value)[lane ^ lane_mask], sizeof(T));
  return other;
}

static inline unsigned __ballot_sync(unsigned, bool predicate)
{
  const unsigned char(*all)[8] = shim::exchange(predicate);
  unsigned bits = 0;
  for (unsigned lane = 0; lane < shim::warp_size; ++lane) bits |= (unsigned)(all[lane][0] != 0) << lane;
  return bits;
}

static inline int __popc(unsigned bits) { return __builtin_popcount(bits); }

static inline unsigned __float_as_uint(float value)
{
  unsigned bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline unsigned atomicAdd(unsigned* where, unsigned value)
{
  const unsigned old = *where;
  *where += value;
  return old;
}

static inline int min(int a, int b) { return a < b ? a : b; }
