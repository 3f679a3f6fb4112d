// Products with tiles of sparse matrices; see data/gpu_tiles.py.
#include "common.cuh"

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

// Returns to all threads of a block the largest of their numbers, none of which is negative.
__device__ double largest_of_block(double mine) {
    __shared__ double of_warp[32];
    for (int away = 16; away > 0; away >>= 1)
        mine = fmax(mine, __shfl_xor_sync(0xffffffffu, mine, away));
    if ((threadIdx.x & 31) == 0) of_warp[threadIdx.x >> 5] = mine;
    __syncthreads();
    for (int w = 0; w < (int)(blockDim.x >> 5); ++w) mine = fmax(mine, of_warp[w]);
    return mine;
}

__device__ double raised(float size, bool squares) {
    return squares ? (double)size * size : (double)size;
}

// unit is max |V|, whether V needs a low part, and then what the first is made of: the largest
// number that each block has seen.
extern "C" __global__ void tile_unit(const double* V, const float* sizes, bool squares, integer n,
                                     double* unit) {
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
    most = largest_of_block(most);
    if (threadIdx.x > 0) return;
    unit[2 + blockIdx.x] = most;
    if (blockIdx.x == 0) unit[1] = 0.0;
}

// Completes what `tile_unit` has left; returns max |V|.
__device__ double whole_unit(int blocks, double* unit) {
    double most = 0.0;
    for (int j = threadIdx.x; j < blocks; j += blockDim.x) most = fmax(most, unit[2 + j]);
    most = largest_of_block(most);
    if (blockIdx.x == 0 && threadIdx.x == 0) unit[0] = most;
    return most;
}

#define LOW 16777216.0  // what low is multiplied by, to be about as large as high: 2 to the 24

// parts = high, then low. Up to `padded`, numbers are zero. What is left below the last bits of a
// double is not worth a second product: low is needed only if something is more.
extern "C" __global__ void tile_split(const double* __restrict__ V,
                                      const float* __restrict__ sizes, bool squares, integer n,
                                      integer padded, int blocks, double* unit,
                                      float* __restrict__ parts) {
    const double whole = whole_unit(blocks, unit), per_unit = whole > 0.0 ? 1.0 / whole : 0.0;
    bool more = false;
    #pragma unroll 4
    FOR_EACH_ROW(i, padded) {
        const double v = i < n ? V[i] * raised(sizes[i], squares) : 0.0;
        const float h = (float)(v * per_unit);
        const double left = fma(-(double)h, whole, v);
        parts[i] = h;
        parts[padded + i] = (float)(left * per_unit * LOW);
        more |= !(fabs(left) <= 1e-15 * fabs(v));
    }
    if (more) unit[1] = 1.0;
}

// Rounds numbers so that they need no low part, which is left as it is.
extern "C" __global__ void tile_round(double* V, const float* sizes, integer n, integer padded,
                                      int blocks, double* unit, float* parts) {
    const double whole = whole_unit(blocks, unit), per_unit = whole > 0.0 ? 1.0 / whole : 0.0;
    FOR_EACH_ROW(i, padded) {
        const double size = i < n ? (double)sizes[i] : 1.0;
        const float high = i < n ? (float)(V[i] * size * per_unit) : 0.0f;
        parts[i] = high;
        if (i < n) V[i] = (double)high * whole / size;
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
            const int cell = slot % n_blocks * n_tiles + place / width;                  \
            const int in_block = slot / n_blocks, bank = in_block & 31;

// Adds up how many entries a cell has for each bank of shared memory, by where their sums will be,
// and how many a slot has.
extern "C" __global__ void tile_count(const int* columns, const integer* starts, integer n,
                                      bool transposed, const int2* pieces, int n_blocks,
                                      int n_tiles, int width, int* banks, int* slots) {
    FOR_EACH_ENTRY
            atomicAdd(banks + 32 * (integer)cell + bank, 1);
            atomicAdd(slots + slot, 1);
        }
}

// Lanes take four entries each, 128 a warp. Entries of a bank go to the lane of its number, so
// that sums that a warp adds to at the same time are in different banks.
struct Lane {
    int first, room;  // a fourth of its first place in a cell; how many places it has
    __device__ Lane(int lane, int begin, int end) {
        first = begin / 4 + ((lane - begin / 4) & 31);
        room = 4 * ((end / 4 - first + 31) / 32);
    }
};

// Returns where the entry of a rank among those of its bank is in a cell from begin to end.
__device__ int place_of(const int* banks, int bank, int rank, int begin, int end) {
    Lane lane(bank, begin, end);
    if (rank >= lane.room) {  // some other lane has room left: that of the first that nobody takes
        int before = rank - lane.room;
        for (int other = 0; other < bank; ++other)
            before += max(0, banks[other] - Lane(other, begin, end).room);
        for (bank = 0;; ++bank) {
            lane = Lane(bank, begin, end);
            const int left = max(0, lane.room - banks[bank]);
            if (before < left) break;
            before -= left;
        }
        rank = banks[bank] + before;
    }
    return 4 * (lane.first + 32 * (rank / 4)) + rank % 4;
}

// Puts entries, divided by sizes, where their cells are; those of a bank in any order. taken is
// zero before.
extern "C" __global__ void tile_fill(const int* columns, const integer* starts, integer n,
                                     bool transposed, const int2* pieces, int n_blocks,
                                     int n_tiles, int width, const float* from,
                                     const float* of_rows, const float* of_columns,
                                     const int* banks, const int* cells, int* taken,
                                     float* values, unsigned* codes) {
    FOR_EACH_ENTRY
            const int rank = atomicAdd(taken + 32 * (integer)cell + bank, 1);
            const int to = place_of(banks + 32 * (integer)cell, bank, rank, cells[cell],
                                    cells[cell + 1]);
            values[to] = from[e] / of_columns[columns[e]] / of_rows[i];
            codes[to] = (unsigned)in_block << 16 | (unsigned)(place % width);
        }
}

// ---- the product ----

#define BUFFERS 2  // as in gpu_tiles.py
#define AHEAD 3    // times four entries that a thread has on their way

__device__ unsigned address(const void* shared) {
    return (unsigned)__cvta_generic_to_shared(shared);
}

// Sends for a tile; `arrived` will say when it is in shared memory. For one thread.
__device__ void fetch(float* tile, const float* from, int width, unsigned long long* arrived) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(arrived)),
                 "r"(4 * width) : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
        ::"r"(address(tile)), "l"(from), "r"(4 * width), "r"(address(arrived)) : "memory");
}

__device__ void wait_for(unsigned long long* arrived, int odd) {
    int there = 0;
    while (!there)
        asm volatile(
            "{\n .reg .pred there;\n"
            " mbarrier.test_wait.parity.shared.b64 there, [%1], %2;\n"
            " selp.s32 %0, 1, 0, there;\n}"
            : "=r"(there) : "r"(address(arrived)), "r"(odd) : "memory");
}

struct Entries {
    uint4 codes;
    float4 values;
    int tile;
};

// Four entries at a time, one thread's way through its block's cells.
struct Way {
    const float* values;
    const unsigned* codes;
    const int* begins;  // of cells, in shared memory
    int n_tiles, at, tile;

    __device__ Entries take() {
        Entries entries;
        while (tile < n_tiles && at >= begins[tile + 1]) ++tile;
        entries.tile = tile;
        if (tile < n_tiles) {
            // Read once: they need not push V out of the cache.
            entries.codes = __ldcs((const uint4*)(codes + at));
            entries.values = __ldcs((const float4*)(values + at));
            at += 4 * blockDim.x;
        }
        return entries;
    }
};

struct Scale {
    float high, low, both;
    bool squares;
};

// sums += x v, as an integer of scale.high, and what is left as one of scale.both. By products
// that are exact, as float32 and what it leaves over, and by sums with a number so large that its
// last bit is 1: much faster than double precision.
__device__ void add(int* sums, int slots, unsigned code, float x, const float* tile,
                    const Scale& scale) {
    const float large = 12582912.0f;  // 1.5 times 2 to the power of 23
    const float v = tile[code & 0xffffu];
    const float y = scale.squares ? x * x : x;
    const float product = y * v;
    float left_over = fmaf(y, v, -product);
    if (scale.squares) left_over = fmaf(fmaf(x, x, -y), v, left_over);
    const float high = fmaf(product, scale.high, large);
    const float rest = fmaf(product, scale.high, large - high);
    const float low = fmaf(rest, scale.low, left_over * scale.both) + large;
    const int slot = code >> 16;
    atomicAdd(sums + slot, __float_as_int(high) - __float_as_int(large));
    atomicAdd(sums + slots + slot, __float_as_int(low) - __float_as_int(large));
}

// out[slot] = unit size times the sum of x v over the slot's entries, or of x^2 v. V is high, and
// low where that is needed, in tiles. A block's warps go from tile to tile, each as fast as it
// can; the last to leave one sends for the tile that takes its place. starts are of cells.
extern "C" __global__ void __launch_bounds__(1024) tile_product(
    const float* values, const unsigned* codes, const int* starts, int n_tiles, int width,
    const float* V, const double* unit, float high_scale, float low_scale, bool squares,
    int n_slots, const float* sizes, double* out) {
    extern __shared__ __align__(16) char shared[];
    const int slots = (n_slots + gridDim.x - 1) / gridDim.x;
    const int lane = threadIdx.x & 31, warps = blockDim.x >> 5;
    float* tiles = (float*)shared;
    int* sums = (int*)(tiles + BUFFERS * width);
    unsigned long long* arrived = (unsigned long long*)(sums + 2 * slots);
    int* gone = (int*)(arrived + BUFFERS);  // warps that have left the tile
    int* begins = gone + BUFFERS;
    const int passes = unit[1] != 0.0 ? 2 : 1;
    if (threadIdx.x < BUFFERS) {
        gone[threadIdx.x] = 0;
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(arrived + threadIdx.x))
                     : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    for (int i = threadIdx.x; i < 2 * slots; i += blockDim.x) sums[i] = 0;
    for (int i = threadIdx.x; i <= n_tiles; i += blockDim.x)
        begins[i] = starts[(integer)blockIdx.x * n_tiles + i];
    __syncthreads();
    if (threadIdx.x == 0)
        for (int t = 0; t < min(BUFFERS, passes * n_tiles); ++t)
            fetch(tiles + t * width, V + (integer)t * width, width, arrived + t);
    const Scale scale = {high_scale, low_scale, high_scale * low_scale, squares};
    for (int pass = 0; pass < passes; ++pass) {
        Way way = {values, codes, begins, n_tiles, begins[0] + 4 * (int)threadIdx.x, 0};
        Entries next[AHEAD];
        #pragma unroll
        for (int k = 0; k < AHEAD; ++k) next[k] = way.take();
        for (int t = 0; t < n_tiles; ++t) {
            const int all = pass * n_tiles + t, buffer = all % BUFFERS;
            float* tile = tiles + buffer * width;
            wait_for(arrived + buffer, all / BUFFERS & 1);
            while (next[0].tile == t) {
                const Entries here = next[0];
                #pragma unroll
                for (int k = 1; k < AHEAD; ++k) next[k - 1] = next[k];
                next[AHEAD - 1] = way.take();
                add(sums, slots, here.codes.x, here.values.x, tile, scale);
                add(sums, slots, here.codes.y, here.values.y, tile, scale);
                add(sums, slots, here.codes.z, here.values.z, tile, scale);
                add(sums, slots, here.codes.w, here.values.w, tile, scale);
            }
            __syncwarp();
            if (lane > 0) continue;
            __threadfence_block();
            if (atomicAdd(gone + buffer, 1) == warps - 1) {
                gone[buffer] = 0;
                __threadfence_block();
                if (all + BUFFERS < passes * n_tiles)
                    fetch(tile, V + (integer)(all + BUFFERS) * width, width, arrived + buffer);
            }
        }
        __syncthreads();
        const double by = *unit / ((double)scale.both * (pass > 0 ? LOW : 1.0));
        for (int i = threadIdx.x; i * (integer)gridDim.x + blockIdx.x < n_slots; i += blockDim.x) {
            const integer slot = i * (integer)gridDim.x + blockIdx.x;
            const double sum = sums[i] * (double)low_scale + sums[slots + i];
            out[slot] = (pass > 0 ? out[slot] : 0.0) + by * raised(sizes[slot], squares) * sum;
            sums[i] = sums[slots + i] = 0;
        }
        __syncthreads();
    }
}
