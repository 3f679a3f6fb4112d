// Products with rows, dense and sparse, and copies of some rows. Rows may be float32, float64 or
// bytes; sums are float64.
#include "common.cuh"

// ---- products with dense rows X (n, d); G and results have K columns, V (K, d) K rows ----

// A warp takes ROWS rows at a time, so that many loads run at the same time.
template <typename X_t, int K>
__global__ void dense_scores(const X_t* X, integer n, int d, const double* V, double* out) {
    const int ROWS = K > 2 ? 2 : 4;
    const int lane = threadIdx.x & 31;
    const integer warps = (integer)gridDim.x * (blockDim.x >> 5);
    for (integer i = ((integer)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5)) * ROWS; i < n;
         i += warps * ROWS) {
        double sums[ROWS][K];
        #pragma unroll
        for (int r = 0; r < ROWS; ++r)
            #pragma unroll
            for (int k = 0; k < K; ++k) sums[r][k] = 0.0;
        #pragma unroll 2
        for (int j = lane; j < d; j += 32) {
            double value[ROWS];
            #pragma unroll
            for (int r = 0; r < ROWS; ++r)
                value[r] = (double)X[(i + r < n ? i + r : i) * d + j];
            #pragma unroll
            for (int k = 0; k < K; ++k) {
                const double v = V[k * d + j];
                #pragma unroll
                for (int r = 0; r < ROWS; ++r) sums[r][k] += value[r] * v;
            }
        }
        #pragma unroll
        for (int r = 0; r < ROWS; ++r)
            #pragma unroll
            for (int k = 0; k < K; ++k) {
                for (int away = 16; away > 0; away >>= 1)
                    sums[r][k] += __shfl_down_sync(0xffffffffu, sums[r][k], away);
                if (lane == 0 && i + r < n) out[(i + r) * K + k] = sums[r][k];
            }
    }
}

// A block takes a part of the rows and 64 columns, two for each lane; partial is (parts, d, K).
template <typename X_t, int K>
__global__ void dense_combine(const X_t* X, integer n, int d, const double* G, bool squares,
                              double* partial) {
    const int ROWS = K > 2 ? 2 : 4;
    __shared__ double of_row[8][64];
    const int lane = threadIdx.x & 31, row = threadIdx.x >> 5;
    const int column = blockIdx.y * 64 + lane;
    const bool near = column < d, far = column + 32 < d;
    const integer chunk = (n + gridDim.x - 1) / gridDim.x;
    const integer begin = blockIdx.x * chunk, end = begin + chunk < n ? begin + chunk : n;
    double sums[2][K];
    for (int k = 0; k < K; ++k) sums[0][k] = sums[1][k] = 0.0;
    for (integer i = begin + row * ROWS; i < end; i += 8 * ROWS) {
        double g[ROWS][K], value[ROWS][2];
        #pragma unroll
        for (int r = 0; r < ROWS; ++r)
            #pragma unroll
            for (int k = 0; k < K; ++k) g[r][k] = i + r < end ? G[(i + r) * K + k] : 0.0;
        #pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            bool any = false;
            #pragma unroll
            for (int k = 0; k < K; ++k) any |= g[r][k] != 0.0;
            value[r][0] = any && near ? (double)X[(i + r) * d + column] : 0.0;
            value[r][1] = any && far ? (double)X[(i + r) * d + column + 32] : 0.0;
        }
        #pragma unroll
        for (int r = 0; r < ROWS; ++r)
            #pragma unroll
            for (int c = 0; c < 2; ++c) {
                const double x = squares ? value[r][c] * value[r][c] : value[r][c];
                #pragma unroll
                for (int k = 0; k < K; ++k) sums[c][k] += x * g[r][k];
            }
    }
    for (int k = 0; k < K; ++k) {
        of_row[row][lane] = sums[0][k];
        of_row[row][lane + 32] = sums[1][k];
        __syncthreads();
        const int j = threadIdx.x;
        if (j < 64 && blockIdx.y * 64 + j < d) {
            double total = 0.0;
            for (int r = 0; r < 8; ++r) total += of_row[r][j];
            partial[((integer)blockIdx.x * d + blockIdx.y * 64 + j) * K + k] = total;
        }
        __syncthreads();
    }
}

// ---- products with sparse rows, cut into items of some entries each ----

// out[slot] = the item's entries times V at their places; T lanes work on one item.
template <typename X_t, int K, int T>
__global__ void sparse_dot(const X_t* values, const int* places, const integer* begins,
                           const int* sizes, const int* slots, integer n_items, const double* V,
                           bool squares, double* out) {
    const int lane = threadIdx.x % T;
    const integer teams = (integer)gridDim.x * (blockDim.x / T);
    const integer team = (integer)blockIdx.x * (blockDim.x / T) + threadIdx.x / T;
    const integer rounds = (n_items + teams - 1) / teams;
    for (integer round = 0; round < rounds; ++round) {
        const integer item = round * teams + team;
        const bool there = item < n_items;
        const integer begin = there ? begins[item] : 0;
        const int size = there ? sizes[item] : 0;
        double sums[K];
        for (int k = 0; k < K; ++k) sums[k] = 0.0;
        #pragma unroll 2
        for (int e = lane; e < size; e += T) {
            // Read once: they should not displace V in the cache.
            const integer place = __ldcs(places + begin + e);
            double value = (double)__ldcs(values + begin + e);
            if (squares) value *= value;
            #pragma unroll
            for (int k = 0; k < K; ++k) sums[k] += value * V[place * K + k];
        }
        #pragma unroll
        for (int k = 0; k < K; ++k) {
            for (int away = T / 2; away > 0; away >>= 1)
                sums[k] += __shfl_down_sync(0xffffffffu, sums[k], away, T);
            if (lane == 0 && there) out[(integer)slots[item] * K + k] = sums[k];
        }
    }
}

// out[line] = the sum of the slots begins[j] to ends[j], for lines that were cut; a warp each.
extern "C" __global__ void fold(const int* lines, const int* begins, const int* ends,
                                integer n_lines, int K, double* out) {
    const int lane = threadIdx.x & 31;
    const integer warps = (integer)gridDim.x * (blockDim.x >> 5);
    for (integer j = (integer)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
         j < n_lines * K; j += warps) {
        const integer line = j / K, k = j % K;
        double total = 0.0;
        for (int slot = begins[line] + lane; slot < ends[line]; slot += 32)
            total += out[(integer)slot * K + k];
        for (int away = 16; away > 0; away >>= 1)
            total += __shfl_down_sync(0xffffffffu, total, away);
        if (lane == 0) out[(integer)lines[line] * K + k] = total;
    }
}

// out (d, K) += scale g_i x_i over rows i, as integers; a team of 8 lanes works on one row.
template <typename X_t, int K>
__global__ void sparse_add(const X_t* values, const int* places, const integer* starts, integer n,
                           const double* G, bool squares, double scale,
                           unsigned long long* out) {
    const int lane = threadIdx.x & 7;
    const integer teams = (integer)gridDim.x * (blockDim.x >> 3);
    for (integer i = (integer)blockIdx.x * (blockDim.x >> 3) + (threadIdx.x >> 3); i < n;
         i += teams) {
        double g[K];
        bool any = false;
        for (int k = 0; k < K; ++k) { g[k] = G[i * K + k]; any |= g[k] != 0.0; }
        if (!any) continue;
        for (integer e = starts[i] + lane; e < starts[i + 1]; e += 8) {
            double value = (double)values[e] * scale;
            if (squares) value *= (double)values[e];
            for (int k = 0; k < K; ++k)
                if (g[k] != 0.0)
                    atomicAdd(out + (integer)places[e] * K + k,
                              (unsigned long long)__double2ll_rn(value * g[k]));
        }
    }
}

// ---- copies of some rows ----

template <typename X_t>
__global__ void copy_scaled(const X_t* X, int d, const integer* index, const double* factor,
                            const double* center, integer m, double* out) {
    FOR_EACH_ROW(e, m * d) {
        const integer j = e / d;
        const int k = (int)(e - j * d);
        out[e] = factor[j] * ((double)X[index[j] * d + k] - center[k]);
    }
}

// out (m, d) has - factor center already.
template <typename X_t>
__global__ void add_scaled(const X_t* values, const int* places, const integer* starts, int d,
                           const integer* index, const double* factor, integer m, double* out) {
    const int lane = threadIdx.x & 31;
    const integer warps = (integer)gridDim.x * (blockDim.x >> 5);
    for (integer j = (integer)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5); j < m;
         j += warps)
        for (integer e = starts[index[j]] + lane; e < starts[index[j] + 1]; e += 32)
            out[j * d + places[e]] += factor[j] * (double)values[e];
}

template <typename X_t>
__global__ void copy_rows(const X_t* values, const int* places, const integer* starts,
                          const integer* index, const integer* new_starts, integer m,
                          X_t* new_values, int* new_places) {
    const int lane = threadIdx.x & 31;
    const integer warps = (integer)gridDim.x * (blockDim.x >> 5);
    for (integer j = (integer)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5); j < m;
         j += warps) {
        const integer from = starts[index[j]], size = starts[index[j] + 1] - from;
        for (integer e = lane; e < size; e += 32) {
            new_values[new_starts[j] + e] = values[from + e];
            new_places[new_starts[j] + e] = places[from + e];
        }
    }
}
