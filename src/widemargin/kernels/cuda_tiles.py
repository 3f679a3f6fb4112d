"""The CUDA text of products with tiles of sparse matrices; see data/gpu_tiles.py."""

from widemargin.kernels.cuda_source import PRELUDE

SOURCE = (
    PRELUDE
    + r"""
// ---- powers of two, by which columns and then rows are divided ----

// peaks, zero before, = the bits of the columns' max |x|, which are ordered as these are.
extern "C" __global__ void tile_peaks(const float* values, const int* columns, integer n,
                                      unsigned* peaks) {
    FOR_EACH_ROW(e, n) {
        const unsigned bits = __float_as_uint(fabsf(values[e]));
        if (bits > peaks[columns[e]]) atomicMax(peaks + columns[e], bits);
    }
}

// The power of two below a number, of its bits, but not below the least that is normal; 1 for 0.
__device__ float power_below(unsigned bits) {
    return bits == 0 ? 1.0f : __uint_as_float(max(bits, 1u << 23) & 0x7f800000u);
}

extern "C" __global__ void tile_sizes(const float* values, const int* columns,
                                      const integer* starts, integer n, integer d,
                                      const unsigned* peaks, float* of_rows, float* of_columns) {
    const integer warps = (integer)gridDim.x * (blockDim.x >> 5);
    for (integer i = (integer)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5); i < n;
         i += warps) {
        float most = 0.0f;
        for (integer e = starts[i] + (threadIdx.x & 31); e < starts[i + 1]; e += 32)
            most = fmaxf(most, fabsf(values[e] / power_below(peaks[columns[e]])));
        for (int away = 16; away > 0; away >>= 1)
            most = fmaxf(most, __shfl_down_sync(0xffffffffu, most, away));
        if ((threadIdx.x & 31) == 0) of_rows[i] = power_below(__float_as_uint(most));
    }
    FOR_EACH_ROW(j, d) { of_columns[j] = power_below(peaks[j]); }
}

// ---- V, times the sizes of its places, as unit (high + low), with numbers of 32 bits ----

// most, zero before, = the largest of all threads' numbers, none of which is negative: then their
// bits are ordered as they are.
__device__ void leave_largest(double mine, unsigned long long* most) {
    __shared__ double of_warp[32];
    for (int away = 16; away > 0; away >>= 1)
        mine = fmax(mine, __shfl_down_sync(0xffffffffu, mine, away));
    if ((threadIdx.x & 31) == 0) of_warp[threadIdx.x >> 5] = mine;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int w = 1; w < (int)(blockDim.x >> 5); ++w) mine = fmax(mine, of_warp[w]);
    atomicMax(most, (unsigned long long)__double_as_longlong(mine));
}

__device__ double raised(float size, bool squares) {
    return squares ? (double)size * size : (double)size;
}

// unit, zero before, = max |V|
extern "C" __global__ void tile_unit(const double* V, const float* sizes, bool squares, integer n,
                                     unsigned long long* unit) {
    const integer apart = (integer)gridDim.x * blockDim.x;
    double most = 0.0;
    for (integer first = (integer)blockIdx.x * blockDim.x + threadIdx.x; first < n;
         first += 8 * apart) {
        double some[8];  // on their way at the same time
        #pragma unroll
        for (int k = 0; k < 8; ++k) {
            const integer i = first + k * apart;
            some[k] = i < n ? fabs(V[i] * raised(sizes[i], squares)) : 0.0;
        }
        #pragma unroll
        for (int k = 0; k < 8; ++k) most = fmax(most, some[k]);
    }
    leave_largest(most, unit);
}

// Up to `padded`, numbers are zero. What is left below the last bits of a double is not worth a
// second product: low is needed only if something is more.
extern "C" __global__ void tile_split(const double* V, const float* sizes, bool squares, integer n,
                                      integer padded, const double* unit, float* high, float* low,
                                      int* needed) {
    const double per_unit = *unit > 0.0 ? 1.0 / *unit : 0.0;
    bool more = false;
    FOR_EACH_ROW(i, padded) {
        const double v = i < n ? V[i] * raised(sizes[i], squares) : 0.0;
        const float h = (float)(v * per_unit);
        const double left = fma(-(double)h, *unit, v);
        high[i] = h;
        low[i] = (float)(left * per_unit);
        more |= !(fabs(left) <= 1e-15 * fabs(v));
    }
    if (more) *needed = 1;
}

// Numbers that need no low part.
extern "C" __global__ void tile_round(const double* V, const float* sizes, integer n,
                                      const double* unit, double* out) {
    const double per_unit = *unit > 0.0 ? 1.0 / *unit : 0.0;
    FOR_EACH_ROW(i, n) {
        const double size = (double)sizes[i];
        out[i] = (double)(float)(V[i] * size * per_unit) * *unit / size;
    }
}

// ---- the entries of sparse rows, by tiles ----

// What both kernels below do for each entry; pieces are a line's first slot, and how many it has.
// A warp takes a row.
#define FOR_EACH_ENTRY                                                                   \
    const integer warps = (integer)gridDim.x * (blockDim.x >> 5);                        \
    for (integer i = (integer)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);       \
         i < n; i += warps)                                                              \
        for (integer e = starts[i] + (threadIdx.x & 31); e < starts[i + 1]; e += 32) {   \
            const int line = transposed ? columns[e] : (int)i;                           \
            const int place = transposed ? (int)i : columns[e];                          \
            const int2 piece = pieces[line];                                             \
            const int slot = piece.x + (piece.y > 1 ? place % piece.y : 0);              \
            const int cell = slot % n_blocks * n_tiles + place / width;

// Adds up how many entries a cell has, and a slot.
extern "C" __global__ void tile_count(const int* columns, const integer* starts, integer n,
                                      bool transposed, const int2* pieces, int n_blocks,
                                      int n_tiles, int width, int* cells, int* slots) {
    FOR_EACH_ENTRY
            atomicAdd(cells + cell, 1);
            atomicAdd(slots + slot, 1);
        }
}

// Puts entries, divided by sizes, where their cells begin and further on, in any order.
extern "C" __global__ void tile_fill(const int* columns, const integer* starts, integer n,
                                     bool transposed, const int2* pieces, int n_blocks,
                                     int n_tiles, int width, const float* from,
                                     const float* of_rows, const float* of_columns, int* begins,
                                     float* values, unsigned* codes) {
    FOR_EACH_ENTRY
            const int to = atomicAdd(begins + cell, 1);
            values[to] = from[e] / of_columns[columns[e]] / of_rows[i];
            codes[to] = (unsigned)(slot / n_blocks) << 16 | (unsigned)(place % width);
        }
}

// ---- the product ----

__device__ void copy_tile(float* tile, const float* from, int width) {
    for (int i = 4 * threadIdx.x; i < width; i += 4 * blockDim.x)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                         (unsigned)__cvta_generic_to_shared(tile + i)), "l"(from + i));
    asm volatile("cp.async.commit_group;");
}

struct Entries {
    uint4 codes;
    float4 values;
    int tile;
};

// sums += x v, as integers of scale; a sum is in two halves, of which the lower has low_bits.
__device__ void add(int* sums, int slots, unsigned code, float x, const float* tile, double scale,
                    int low_bits, bool squares) {
    const double value = raised(x, squares);
    const integer term = __double2ll_rn(value * tile[code & 0xffffu] * scale);
    const int slot = code >> 16;
    atomicAdd(sums + slot, (int)(term >> low_bits));
    atomicAdd(sums + slots + slot, (int)(term & ((1LL << low_bits) - 1)));
}

// Four entries at a time, one thread's way through its block's cells.
struct Way {
    const float* values;
    const unsigned* codes;
    const int* starts;  // of cells, in shared memory
    int n_tiles, tile, at;

    __device__ void go_on(int by) {
        at += by;
        while (tile < n_tiles && at >= starts[tile + 1]) {
            ++tile;
            at = starts[tile] + 4 * threadIdx.x;
        }
    }
    __device__ Entries take() {
        Entries entries;
        entries.tile = tile;
        if (tile < n_tiles) {
            // Read once: they need not push V out of the cache.
            entries.codes = __ldcs((const uint4*)(codes + at));
            entries.values = __ldcs((const float4*)(values + at));
            go_on(4 * blockDim.x);
        }
        return entries;
    }
};

// out[slot] = unit size / scale sum of x v over the slot's entries, or of x^2 v; or adds that to
// what is there. Nothing is done where `needed` is zero. A block goes from tile to tile; the next
// one, and the thread's next eight entries, are on their way meanwhile. starts are of cells.
extern "C" __global__ void __launch_bounds__(1024) tile_product(
    const float* values, const unsigned* codes, const int* starts, int n_tiles, int width,
    const float* V, const double* unit, const int* needed, double scale, int low_bits,
    bool squares, bool more, int n_slots, const float* sizes, double* out) {
    extern __shared__ __align__(16) char shared[];
    const int slots = (n_slots + gridDim.x - 1) / gridDim.x;
    float* tiles = (float*)shared;
    int* sums = (int*)(tiles + 2 * width);
    int* begins = sums + 2 * slots;
    if (needed != nullptr && *needed == 0) return;
    copy_tile(tiles, V, width);
    for (int i = threadIdx.x; i < 2 * slots; i += blockDim.x) sums[i] = 0;
    for (int i = threadIdx.x; i <= n_tiles; i += blockDim.x)
        begins[i] = starts[(integer)blockIdx.x * n_tiles + i];
    __syncthreads();
    Way way = {values, codes, begins, n_tiles, 0, begins[0] + 4 * (int)threadIdx.x};
    way.go_on(0);
    Entries first = way.take(), second = way.take();
    for (int t = 0; t < n_tiles; ++t) {
        if (t + 1 < n_tiles) {
            copy_tile(tiles + ((t + 1) & 1) * width, V + (integer)(t + 1) * width, width);
            asm volatile("cp.async.wait_group 1;");
        } else {
            asm volatile("cp.async.wait_group 0;");
        }
        __syncthreads();
        const float* tile = tiles + (t & 1) * width;
        while (first.tile == t) {
            const Entries here = first;
            first = second;
            second = way.take();
            add(sums, slots, here.codes.x, here.values.x, tile, scale, low_bits, squares);
            add(sums, slots, here.codes.y, here.values.y, tile, scale, low_bits, squares);
            add(sums, slots, here.codes.z, here.values.z, tile, scale, low_bits, squares);
            add(sums, slots, here.codes.w, here.values.w, tile, scale, low_bits, squares);
        }
        __syncthreads();
    }
    const double by = *unit / scale;
    for (int i = threadIdx.x; i * (integer)gridDim.x + blockIdx.x < n_slots; i += blockDim.x) {
        const integer slot = i * (integer)gridDim.x + blockIdx.x;
        const integer sum = ((integer)sums[i] << low_bits) + (unsigned)sums[slots + i];
        out[slot] = (more ? out[slot] : 0.0) + by * raised(sizes[slot], squares) * (double)sum;
    }
}
"""
)
