// Kernels of the GPU engine (gpu.py). Compiled at run time by NVRTC through CuPy; the tests also compile this very file as
// C++ and run it on the CPU (tests/gpu/cuda_shim.h), so it uses nothing but barriers, shared memory, warp shuffles,
// ballots and integer atomics. No result depends on the order in which threads or blocks run.
//
// A launch serves a batch of problems. Their variables stand one after the other: those of problem b are
// start[b] ... start[b + 1] - 1, and `active` lists the problems that a launch is about. Notation as in engines.py:
// v = -y * gradient; y * a may grow ("up") or shrink ("down").

// What gpu_device.py and this file have to agree on is defined by the compiler's options (OPTIONS there): THREADS of a
// block in all kernels but select_variables, which has SELECT_THREADS; PER_THREAD variables that a thread of the inner
// solver keeps in registers; BIG for infinity; the numbers of the kernel functions RBF, POLY, SIGMOID, LINEAR.
#ifndef THREADS
#error "compile with the options of gpu_device.py"
#endif

#define WARP 32
#define ALL 0xffffffffu
#define NONE 0x7fffffff

__device__ __forceinline__ bool may_grow(double y, double a, double lo, double hi) { return y > 0 ? a < hi : a > lo; }

__device__ __forceinline__ bool may_shrink(double y, double a, double lo, double hi) { return y > 0 ? a > lo : a < hi; }

// ---------------------------------------------------------------------------------------------------------------------
// Inner solver: one block solves one small problem on its dense kernel block by sequential minimal optimisation with
// second-order selection (Fan, Chen and Lin, JMLR 6, 2005). The counterpart of inner.py: the same steps, except that
// the gain that picks the second variable is computed in single precision (double division is slow on many cards);
// which variable is picked affects the path, not the end. Two barriers a step.
//
// K        (problems, q, q) kernel values without the signs
// chosen   (problems, q) variable of each row of K; the first count[b] count
// a        updated for the chosen variables; after: their new values (problems, q)
// report   (problems, 2): steps made, gap left within the block
template <typename T>
__device__ void solve_block(const T* K, const int* chosen, const int* count, int q, const double* y, const double* v,
                            const double* lo, const double* hi, const double* stop_at, const int* max_steps, double tau,
                            double* a, double* after, double* report)
{
  const int n_warps = THREADS / WARP;
  __shared__ double high_of[n_warps], low_of[n_warps], room_i_of[n_warps], step_of[n_warps], room_j_of[n_warps];
  __shared__ float gain_of[n_warps];
  __shared__ int i_of[n_warps], j_of[n_warps];
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, n = count[blockIdx.x];
  K += (size_t)blockIdx.x * q * q;
  chosen += (size_t)blockIdx.x * q;
  after += (size_t)blockIdx.x * q;

  double v_[PER_THREAD], a_[PER_THREAD], lo_[PER_THREAD], hi_[PER_THREAD];
  T diagonal[PER_THREAD], K_i[PER_THREAD];
  bool positive[PER_THREAD], up[PER_THREAD], down[PER_THREAD];
  #pragma unroll
  for (int k = 0; k < PER_THREAD; ++k) {
    const int t = threadIdx.x + k * THREADS;
    if (t < n) {
      const int g = chosen[t];
      v_[k] = v[g];
      a_[k] = a[g];
      lo_[k] = lo[g];
      hi_[k] = hi[g];
      positive[k] = y[g] > 0;
      diagonal[k] = K[(size_t)t * q + t];
      up[k] = may_grow(y[g], a_[k], lo_[k], hi_[k]);
      down[k] = may_shrink(y[g], a_[k], lo_[k], hi_[k]);
    } else {
      v_[k] = a_[k] = lo_[k] = hi_[k] = 0;
      diagonal[k] = 0;
      positive[k] = up[k] = down[k] = false;
    }
    K_i[k] = 0;
  }

  const double stop = stop_at[blockIdx.x];
  const int most_steps = max_steps[blockIdx.x];
  double gap = 0;
  int steps = 0;
  for (;;) {
    // i: the largest v that may grow; the first index wins ties
    double high = -BIG, low = BIG, room_i = 0;
    int i = NONE;
    #pragma unroll
    for (int k = 0; k < PER_THREAD; ++k) {
      if (up[k] && v_[k] > high) {
        high = v_[k];
        i = threadIdx.x + k * THREADS;
        room_i = positive[k] ? hi_[k] - a_[k] : a_[k] - lo_[k];
      }
      if (down[k] && v_[k] < low) low = v_[k];
    }
    const int own_i = i;
    for (int offset = WARP / 2; offset; offset /= 2) {
      const double high_other = __shfl_xor_sync(ALL, high, offset), low_other = __shfl_xor_sync(ALL, low, offset);
      const int i_other = __shfl_xor_sync(ALL, i, offset);
      if (high_other > high || (high_other == high && i_other < i)) {
        high = high_other;
        i = i_other;
      }
      if (low_other < low) low = low_other;
    }
    if (lane == 0) {
      high_of[warp] = high;
      low_of[warp] = low;
      i_of[warp] = i;
    }
    if (own_i == i && i != NONE) room_i_of[warp] = room_i;
    __syncthreads();
    high = -BIG;
    low = BIG;
    i = NONE;
    for (int w = 0; w < n_warps; ++w) {
      if (i_of[w] != NONE && (high_of[w] > high || (high_of[w] == high && i_of[w] < i))) {
        high = high_of[w];
        i = i_of[w];
        room_i = room_i_of[w];
      }
      if (low_of[w] < low) low = low_of[w];
    }
    gap = high - low;
    if (gap <= stop || steps >= most_steps) break;

    // j: the largest decrease of the objective together with i
    const T K_ii = K[(size_t)i * q + i];
    float gain = 0;
    double step = 0, room_j = 0;
    int j = NONE;
    #pragma unroll
    for (int k = 0; k < PER_THREAD; ++k) {
      const int t = threadIdx.x + k * THREADS;
      if (t < n) K_i[k] = K[(size_t)i * q + t];
      const double difference = high - v_[k];
      if (down[k] && difference > 0) {
        double curvature = (double)K_ii + (double)diagonal[k] - 2 * (double)K_i[k];
        if (curvature < tau) curvature = tau;
        const float d = (float)difference, g = d * d / (float)curvature;
        if (g > gain) {
          gain = g;
          j = t;
          step = curvature;  // divided into the difference by the winner only
          room_j = positive[k] ? a_[k] - lo_[k] : hi_[k] - a_[k];
        }
      }
    }
    const int own_j = j;
    for (int offset = WARP / 2; offset; offset /= 2) {
      const float gain_other = __shfl_xor_sync(ALL, gain, offset);
      const int j_other = __shfl_xor_sync(ALL, j, offset);
      if (gain_other > gain || (gain_other == gain && j_other < j)) {
        gain = gain_other;
        j = j_other;
      }
    }
    if (lane == 0) {
      gain_of[warp] = gain;
      j_of[warp] = j;
    }
    if (own_j == j && j != NONE) {
      double v_j = 0;
      #pragma unroll
      for (int k = 0; k < PER_THREAD; ++k)
        if (j == (int)threadIdx.x + k * THREADS) v_j = v_[k];
      step_of[warp] = (high - v_j) / step;
      room_j_of[warp] = room_j;
    }
    __syncthreads();
    gain = 0;
    j = NONE;
    double delta = 0;
    for (int w = 0; w < n_warps; ++w)
      if (j_of[w] != NONE && (gain_of[w] > gain || (gain_of[w] == gain && j_of[w] < j))) {
        gain = gain_of[w];
        j = j_of[w];
        delta = step_of[w];
        room_j = room_j_of[w];
      }
    if (j == NONE) break;

    // y_i a_i grows and y_j a_j shrinks by delta; a variable that meets its bound is set to it exactly
    bool at_bound_i = false, at_bound_j = false;
    if (delta >= room_i) {
      delta = room_i;
      at_bound_i = true;
    }
    if (delta >= room_j) {
      if (delta > room_j) at_bound_i = false;
      delta = room_j;
      at_bound_j = true;
    }
    #pragma unroll
    for (int k = 0; k < PER_THREAD; ++k) {
      const int t = threadIdx.x + k * THREADS;
      if (t == i) {
        if (positive[k]) a_[k] = at_bound_i ? hi_[k] : a_[k] + delta;
        else a_[k] = at_bound_i ? lo_[k] : a_[k] - delta;
      }
      if (t == j) {
        if (positive[k]) a_[k] = at_bound_j ? lo_[k] : a_[k] - delta;
        else a_[k] = at_bound_j ? hi_[k] : a_[k] + delta;
      }
      if (t == i || t == j) {
        up[k] = positive[k] ? a_[k] < hi_[k] : a_[k] > lo_[k];
        down[k] = positive[k] ? a_[k] > lo_[k] : a_[k] < hi_[k];
      }
      if (t < n) v_[k] -= delta * ((double)K_i[k] - (double)K[(size_t)j * q + t]);
    }
    ++steps;
  }
  #pragma unroll
  for (int k = 0; k < PER_THREAD; ++k) {
    const int t = threadIdx.x + k * THREADS;
    if (t < n) {
      a[chosen[t]] = a_[k];
      after[t] = a_[k];
    }
  }
  if (threadIdx.x == 0) {
    report[2 * blockIdx.x] = steps;
    report[2 * blockIdx.x + 1] = gap;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
solve_block_float32(const float* __restrict__ K, const int* __restrict__ chosen, const int* __restrict__ count, int q,
                    const double* __restrict__ y, const double* __restrict__ v, const double* __restrict__ lo,
                    const double* __restrict__ hi, const double* __restrict__ stop_at,
                    const int* __restrict__ max_steps, double tau, double* a, double* after, double* report)
{
  solve_block<float>(K, chosen, count, q, y, v, lo, hi, stop_at, max_steps, tau, a, after, report);
}

extern "C" __global__ void __launch_bounds__(THREADS)
solve_block_float64(const double* __restrict__ K, const int* __restrict__ chosen, const int* __restrict__ count, int q,
                    const double* __restrict__ y, const double* __restrict__ v, const double* __restrict__ lo,
                    const double* __restrict__ hi, const double* __restrict__ stop_at,
                    const int* __restrict__ max_steps, double tau, double* a, double* after, double* report)
{
  solve_block<double>(K, chosen, count, q, y, v, lo, hi, stop_at, max_steps, tau, a, after, report);
}

// ---------------------------------------------------------------------------------------------------------------------
// Selection of the working sets, in three launches: survey, rate_violations, select_variables. In the first two,
// `blocks` blocks share the variables of one problem.

__device__ void own_range(const int* active, const int* start, int blocks, int& first, int& last)
{
  const int b = active[blockIdx.x / blocks], part = blockIdx.x % blocks, n = start[b + 1] - start[b];
  const int size = (n + blocks - 1) / blocks;
  first = start[b] + min(n, part * size);
  last = start[b] + min(n, (part + 1) * size);
}

// partial  (active problems, blocks, 3): largest v that may grow, smallest that may shrink, a * (gradient + p) summed
extern "C" __global__ void __launch_bounds__(THREADS)
survey(const int* __restrict__ active, const int* __restrict__ start, int blocks, const double* __restrict__ y,
       const double* __restrict__ p, const double* __restrict__ lo, const double* __restrict__ hi,
       const double* __restrict__ a, const double* __restrict__ v, double* partial)
{
  const int n_warps = THREADS / WARP;
  __shared__ double high_of[n_warps], low_of[n_warps], sum_of[n_warps];
  int first, last;
  own_range(active, start, blocks, first, last);
  double high = -BIG, low = BIG, sum = 0;
  for (int t = first + threadIdx.x; t < last; t += THREADS) {
    if (may_grow(y[t], a[t], lo[t], hi[t]) && v[t] > high) high = v[t];
    if (may_shrink(y[t], a[t], lo[t], hi[t]) && v[t] < low) low = v[t];
    sum += a[t] * (p[t] - y[t] * v[t]);
  }
  for (int offset = WARP / 2; offset; offset /= 2) {
    const double high_other = __shfl_xor_sync(ALL, high, offset), low_other = __shfl_xor_sync(ALL, low, offset);
    if (high_other > high) high = high_other;
    if (low_other < low) low = low_other;
    sum += __shfl_xor_sync(ALL, sum, offset);
  }
  if (threadIdx.x % WARP == 0) {
    high_of[threadIdx.x / WARP] = high;
    low_of[threadIdx.x / WARP] = low;
    sum_of[threadIdx.x / WARP] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < n_warps; ++w) {
      if (high_of[w] > high) high = high_of[w];
      if (low_of[w] < low) low = low_of[w];
      sum += sum_of[w];
    }
    partial[3 * blockIdx.x] = high;
    partial[3 * blockIdx.x + 1] = low;
    partial[3 * blockIdx.x + 2] = sum;
  }
}

// By how much each variable violates optimality, as the bits of a float (they order like the numbers; 0: not at all).
//
// extremes  (active problems, 3): largest v that may grow, smallest that may shrink, objective
extern "C" __global__ void __launch_bounds__(THREADS)
rate_violations(const int* __restrict__ active, const int* __restrict__ start, int blocks,
                const double* __restrict__ y, const double* __restrict__ lo, const double* __restrict__ hi,
                const double* __restrict__ a, const double* __restrict__ v, const double* __restrict__ partial,
                unsigned* up, unsigned* down, double* extremes)
{
  const int position = blockIdx.x / blocks;
  int first, last;
  own_range(active, start, blocks, first, last);
  double high = -BIG, low = BIG, sum = 0;
  for (int part = 0; part < blocks; ++part) {
    const double* of_part = partial + 3 * (position * blocks + part);
    if (of_part[0] > high) high = of_part[0];
    if (of_part[1] < low) low = of_part[1];
    sum += of_part[2];
  }
  if (blockIdx.x % blocks == 0 && threadIdx.x == 0) {
    extremes[3 * position] = high;
    extremes[3 * position + 1] = low;
    extremes[3 * position + 2] = 0.5 * sum;
  }
  const bool both_sides = high > -BIG && low < BIG;
  for (int t = first + threadIdx.x; t < last; t += THREADS) {
    const bool too_high = both_sides && v[t] > low && may_grow(y[t], a[t], lo[t], hi[t]);
    const bool too_low = both_sides && v[t] < high && may_shrink(y[t], a[t], lo[t], hi[t]);
    up[t] = too_high ? __float_as_uint((float)(v[t] - low)) : 0u;
    down[t] = too_low ? __float_as_uint((float)(high - v[t])) : 0u;
  }
}

// Append the `wanted` largest keys' variables to `out` in index order (first indices first among equals), for a whole
// block; returns how many. Clears the chosen ones' entries in `other`. Radix selection on 11, 10 and 10 bits.
__device__ int take_largest(const unsigned* keys, unsigned* other, int first, int n, int wanted, int* out)
{
  const int n_warps = SELECT_THREADS / WARP, n_bins = 2048, n_chunks = 64;
  __shared__ unsigned histogram[n_bins], chunk[n_chunks];
  __shared__ unsigned prefix, left;  // keys whose high bits are `prefix`: the `left` largest of them are still wanted
  __shared__ int larger_of[n_warps], equal_of[n_warps];
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  if (threadIdx.x == 0) {
    prefix = 0;
    left = wanted;
  }
  for (int shift = 20; shift >= 0; shift -= 10) {
    const int bits = shift == 20 ? 11 : 10, bins = 1 << bits;
    for (int bin = threadIdx.x; bin < bins; bin += SELECT_THREADS) histogram[bin] = 0;
    __syncthreads();  // from here on earlier changes of the keys are seen too
    const unsigned known = prefix;
    for (int t = threadIdx.x; t < n; t += SELECT_THREADS) {
      const unsigned key = keys[first + t];
      if (key && (shift == 20 || key >> (shift + bits) == known)) atomicAdd(&histogram[(key >> shift) & (bins - 1)], 1u);
    }
    __syncthreads();
    const int chunk_size = bins / n_chunks;
    if (threadIdx.x < n_chunks) {
      unsigned sum = 0;
      for (int k = 0; k < chunk_size; ++k) sum += histogram[threadIdx.x * chunk_size + k];
      chunk[threadIdx.x] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int c = n_chunks - 1;
      while (c > 0 && chunk[c] < left) left -= chunk[c--];
      int bin = (c + 1) * chunk_size - 1;
      while (bin > c * chunk_size && histogram[bin] < left) left -= histogram[bin--];
      prefix = (known << bits) | bin;
    }
    __syncthreads();
  }
  const unsigned limit = prefix;
  const int quota = limit ? (int)left : 0;  // how many of the keys that equal the limit are taken

  // every warp owns a contiguous range: count, sum up over the warps before it, write
  const int range = (n + SELECT_THREADS - 1) / SELECT_THREADS * WARP, begin = min(n, warp * range);
  const int end = min(n, begin + range);
  int larger = 0, equal = 0;
  for (int s = begin; s < end; s += WARP) {
    const unsigned key = s + lane < end ? keys[first + s + lane] : 0u;
    larger += __popc(__ballot_sync(ALL, key > limit));
    equal += __popc(__ballot_sync(ALL, key && key == limit));
  }
  if (lane == 0) {
    larger_of[warp] = larger;
    equal_of[warp] = equal;
  }
  __syncthreads();
  int larger_before = 0, equal_before = 0, larger_total = 0, equal_total = 0;
  for (int w = 0; w < n_warps; ++w) {
    if (w < warp) {
      larger_before += larger_of[w];
      equal_before += equal_of[w];
    }
    larger_total += larger_of[w];
    equal_total += equal_of[w];
  }
  const unsigned before = (1u << lane) - 1;
  for (int s = begin; s < end; s += WARP) {
    const unsigned key = s + lane < end ? keys[first + s + lane] : 0u;
    const unsigned larger_here = __ballot_sync(ALL, key > limit), equal_here = __ballot_sync(ALL, key && key == limit);
    const int equal_rank = equal_before + __popc(equal_here & before);
    const bool is_equal = key && key == limit && equal_rank < quota;
    if (key > limit || is_equal) {
      out[larger_before + __popc(larger_here & before) + min(equal_rank, quota)] = first + s + lane;
      other[first + s + lane] = 0u;
    }
    larger_before += __popc(larger_here);
    equal_before += __popc(equal_here);
  }
  return larger_total + min(equal_total, quota);
}

// The next working set of each problem: the free variables of the last set (the newest q / 2 of them), then the
// strongest violators of both sides. chosen (all problems, q) and count (all problems) hold the last set and get the next.
extern "C" __global__ void __launch_bounds__(SELECT_THREADS)
select_variables(const int* __restrict__ active, const int* __restrict__ start, int q, const double* __restrict__ lo,
                 const double* __restrict__ hi, const double* __restrict__ a, unsigned* up, unsigned* down, int* chosen,
                 int* count)
{
  const int n_warps = SELECT_THREADS / WARP;
  __shared__ int free_of[n_warps];
  const int b = active[blockIdx.x], lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  const int first = start[b], n = start[b + 1] - first;
  chosen += (size_t)b * q;
  int g = 0;
  bool is_free = false;
  if ((int)threadIdx.x < count[b]) {
    g = chosen[threadIdx.x];
    is_free = a[g] > lo[g] && a[g] < hi[g];
  }
  const unsigned free_here = __ballot_sync(ALL, is_free);
  if (lane == 0) free_of[warp] = __popc(free_here);
  __syncthreads();
  int rank = __popc(free_here & ((1u << lane) - 1)), total = 0;
  for (int w = 0; w < n_warps; ++w) {
    if (w < warp) rank += free_of[w];
    total += free_of[w];
  }
  const int kept = min(total, q / 2);
  rank -= total - kept;
  if (is_free && rank >= 0) {
    chosen[rank] = g;
    up[g] = 0u;
    down[g] = 0u;
  }
  const int n_up = take_largest(up, down, first, n, (q - kept) / 2, chosen + kept);
  const int n_down = take_largest(down, up, first, n, q - kept - n_up, chosen + kept + n_up);
  if (threadIdx.x == 0) count[b] = kept + n_up + n_down;
}

// ---------------------------------------------------------------------------------------------------------------------
// Kernel values from inner products, and the update of v.

__device__ double argument(double dot, double square_a, double square_b, int kind, double gamma, double coef0)
{
  if (kind == RBF) {
    const double x = gamma * (2 * dot - square_a - square_b);
    return x < 0 ? x : 0;
  }
  return kind == LINEAR ? dot : gamma * dot + coef0;
}

__device__ __forceinline__ float power(float x, int degree)
{
  float result = 1;
  for (int k = degree; k; k /= 2) {
    if (k % 2) result *= x;
    x *= x;
  }
  return result;
}

__device__ __forceinline__ double power(double x, int degree)
{
  double result = 1;
  for (int k = degree; k; k /= 2) {
    if (k % 2) result *= x;
    x *= x;
  }
  return result;
}

__device__ __forceinline__ float value(float x, int kind, int degree)
{
  return kind == RBF ? expf(x) : kind == POLY ? power(x, degree) : kind == SIGMOID ? tanhf(x) : x;
}

__device__ __forceinline__ double value(double x, int kind, int degree)
{
  return kind == RBF ? exp(x) : kind == POLY ? power(x, degree) : kind == SIGMOID ? tanh(x) : x;
}

// Turn (problems, q, q) inner products among chosen columns into kernel values, in place. A grid block does one row.
template <typename T>
__device__ void finish_block(T* block, const int* column, int q, const double* squares, int kind, double gamma,
                             int degree, double coef0)
{
  const int row = blockIdx.x % q;
  const int* columns = column + blockIdx.x / q * q;
  T* out = block + (size_t)blockIdx.x * q;
  const double square = squares[columns[row]];
  for (int c = threadIdx.x; c < q; c += THREADS) {
    const T x = (T)argument(out[c], square, squares[columns[c]], kind, gamma, coef0);
    out[c] = kind == RBF && c == row ? (T)1 : value(x, kind, degree);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
finish_block_float32(float* block, const int* __restrict__ column, int q, const double* __restrict__ squares, int kind,
                     double gamma, int degree, double coef0)
{
  finish_block<float>(block, column, q, squares, kind, gamma, degree, coef0);
}

extern "C" __global__ void __launch_bounds__(THREADS)
finish_block_float64(double* block, const int* __restrict__ column, int q, const double* __restrict__ squares, int kind,
                     double gamma, int degree, double coef0)
{
  finish_block<double>(block, column, q, squares, kind, gamma, degree, coef0);
}

// Turn (rows, width) inner products with the columns begin ... begin + width - 1 into kernel values in the rows' slots of
// the row cache, rounded to single precision. `parts` grid blocks share a row.
template <typename T>
__device__ void finish_rows(const T* products, const int* column, const int* slot, int begin, int width, int parts,
                            const double* squares, int kind, double gamma, int degree, double coef0, float* cache,
                            long long stride)
{
  const int row = blockIdx.x / parts, part = blockIdx.x % parts;
  const double square = squares[column[row]];
  float* out = cache + slot[row] * stride + begin;
  for (int c = part * THREADS + threadIdx.x; c < width; c += parts * THREADS) {
    const T x = (T)argument(products[(size_t)row * width + c], square, squares[begin + c], kind, gamma, coef0);
    out[c] = kind == RBF && begin + c == column[row] ? 1.0f : (float)value(x, kind, degree);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
finish_rows_float32(const float* __restrict__ products, const int* __restrict__ column, const int* __restrict__ slot,
                    int begin, int width, int parts, const double* __restrict__ squares, int kind, double gamma,
                    int degree, double coef0, float* cache, long long stride)
{
  finish_rows<float>(products, column, slot, begin, width, parts, squares, kind, gamma, degree, coef0, cache, stride);
}

extern "C" __global__ void __launch_bounds__(THREADS)
finish_rows_float64(const double* __restrict__ products, const int* __restrict__ column, const int* __restrict__ slot,
                    int begin, int width, int parts, const double* __restrict__ squares, int kind, double gamma,
                    int degree, double coef0, float* cache, long long stride)
{
  finish_rows<double>(products, column, slot, begin, width, parts, squares, kind, gamma, degree, coef0, cache, stride);
}

// v[t] -= sum over the entries of t's problem of coefficient * K(row, column[t]), summed in double precision in the
// entries' order. Entries of the problem at position b of `active`: entry_start[b] ... entry_start[b + 1] - 1.
extern "C" __global__ void __launch_bounds__(THREADS)
update_v(const int* __restrict__ active, const int* __restrict__ start, int blocks, const int* __restrict__ column,
         const int* __restrict__ entry_start, const int* __restrict__ slot, const double* __restrict__ coefficient,
         const float* __restrict__ cache, long long stride, double* v)
{
  int first, last;
  own_range(active, start, blocks, first, last);
  const int begin = entry_start[blockIdx.x / blocks], end = entry_start[blockIdx.x / blocks + 1];
  if (begin == end) return;
  for (int t = first + threadIdx.x; t < last; t += THREADS) {
    const float* of_column = cache + column[t];
    double sum = 0;
    #pragma unroll 8
    for (int e = begin; e < end; ++e) sum += coefficient[e] * (double)of_column[slot[e] * stride];
    v[t] -= sum;
  }
}
