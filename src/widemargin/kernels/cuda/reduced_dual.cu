// The reduced dual of a bundle: as `ascend` in kernels/bundle.py, without a free intercept.
#include "common.cuh"

// A single block does all of it. A thread has one of the m planes, or one of the working set.

// Returns the sum of all threads' numbers to each thread, in a fixed order.
__device__ double total_of_block(double mine) {
    __shared__ double total;
    double sums[1] = {mine};
    const double sum = block_sum(sums);
    if (threadIdx.x == 0) total = sum;
    __syncthreads();
    return total;
}

struct Least {
    double number;
    int thread;
};

// Returns the smallest of the threads' numbers, and the first thread that has it.
__device__ Least least_of_block(double number) {
    __shared__ Least of_warp[32];
    Least mine = {number, (int)threadIdx.x};
    for (int away = 16; away > 0; away >>= 1) {
        const double other = __shfl_down_sync(0xffffffffu, mine.number, away);
        const int thread = __shfl_down_sync(0xffffffffu, mine.thread, away);
        if (other < mine.number) mine = {other, thread};
    }
    __syncthreads();
    if ((threadIdx.x & 31) == 0) of_warp[threadIdx.x >> 5] = mine;
    __syncthreads();
    mine = of_warp[0];
    for (int w = 1; w < (int)(blockDim.x >> 5); ++w)
        if (of_warp[w].number < mine.number) mine = of_warp[w];
    return mine;
}

// The Cholesky factor of H + shift in the rows and columns of free planes. Its diagonal is stored
// as its inverse.
struct Factor {
    double *L, *inverse;
    int stride;

    __device__ void make(const double* H, int m, double shift, const int* free, int size) const {
        const int row = threadIdx.x >> 4, column = threadIdx.x & 15, apart = blockDim.x >> 4;
        for (int i = row; i < size; i += apart)
            for (int k = column; k <= i; k += 16)
                L[i * stride + k] = H[free[i] * m + free[k]] + shift;
        for (int i = 0; i < size; ++i) {
            __syncthreads();
            const double least = 1e-13 * (H[free[i] * (m + 1)] + shift);  // as in bundle.py
            const double by = 1.0 / sqrt(fmax(L[i * (stride + 1)], least));
            const int below = i + 1 + threadIdx.x;
            if (below < size) L[below * stride + i] *= by;
            if (threadIdx.x == 0) inverse[i] = by;
            __syncthreads();
            for (int j = i + 1 + row; j < size; j += apart)
                for (int k = i + 1 + column; k <= j; k += 16)
                    L[j * stride + k] -= L[j * stride + i] * L[k * stride + i];
        }
        __syncthreads();
    }

    // x becomes the solution of the system with right side x; for one warp.
    __device__ void solve(double* x, int size) const {
        const int lane = threadIdx.x & 31;
        for (int i = 0; i < size; ++i) {
            const double found = x[i] * inverse[i];
            __syncwarp();
            if (lane == 0) x[i] = found;
            for (int k = i + 1 + lane; k < size; k += 32) x[k] -= L[k * stride + i] * found;
            __syncwarp();
        }
        for (int i = size - 1; i >= 0; --i) {
            const double found = x[i] * inverse[i];
            __syncwarp();
            if (lane == 0) x[i] = found;
            for (int k = lane; k < i; k += 32) x[k] -= L[i * stride + k] * found;
            __syncwarp();
        }
    }
};

// given = the planes' height at the last solution, the tolerance, the value to be reached; c and
// z, (m,); H (m, m), without its last row and column, which are the sum of `partial` (parts, m).
// found = whether the value was reached, the new value, the height; z. chosen = the number of
// planes in use; minus their weights, from place 1 on; their indices, from place 1 + m on.
extern "C" __global__ void __launch_bounds__(256) reduced_dual(
    const double* given, const double* partial, int parts, int m, double* chosen, double* found) {
    extern __shared__ double shared[];
    const double infinity = __longlong_as_double(0x7ff0000000000000LL);
    const int own = threadIdx.x, lane = own & 31, warp = own >> 5;
    double *H = shared, *vectors = H + m * m;
    double *c = vectors, *z = c + m, *gradient = z + m, *ahead = gradient + m;
    double *inverse = ahead + m, *change = inverse + m;
    const Factor factor = {vectors + 8 * m, change + m, m | 1};
    int *free = (int*)(vectors + 7 * m), *shut = free + m;

    for (int e = own; e < m * m; e += blockDim.x) H[e] = given[3 + 2 * m + e];
    for (int k = lane; k < m; k += 32) {  // of the last plane, by warps: in place of vectors
        double sum = 0.0;
        #pragma unroll 8
        for (int p = warp; p < parts; p += 8) sum += partial[p * m + k];
        vectors[warp * m + k] = sum;
    }
    __syncthreads();
    if (own < m) {
        double sum = 0.0;
        for (int w = 0; w < 8; ++w) sum += vectors[w * m + own];
        H[(m - 1) * m + own] = H[own * m + m - 1] = sum;
    }
    __syncthreads();
    double height = given[0];
    const double tolerance = given[1], before = given[2];
    const double start = own < m ? given[3 + m + own] : 0.0;
    if (own < m) {
        c[own] = given[3 + own];
        z[own] = start;
        shut[own] = start <= 0.0;
    }
    const double largest = -least_of_block(own < m ? -H[own * (m + 1)] : 0.0).number;
    const double shift = largest > 0.0 ? largest : 1.0;
    int size = 0;
    for (int j = 0; j < m; ++j)
        if (!shut[j]) {
            if (own == 0) free[size] = j;
            ++size;
        }
    if (own < m) {
        gradient[own] = c[own];
        for (int j = 0; j < m; ++j) gradient[own] -= H[j * m + own] * z[j];
    }
    __syncthreads();

    int idle = 0, entered = -1;
    for (int pivot = 0; pivot < 20 * m + 100 && idle < 5; ++pivot) {
        factor.make(H, m, shift, free, size);
        const bool is_free = own < size;
        const int plane = is_free ? free[own] : 0;
        if (is_free) {
            ahead[own] = gradient[plane] - height;
            inverse[own] = 1.0;
        }
        __syncthreads();
        if (warp < 2) factor.solve(warp ? inverse : ahead, size);
        __syncthreads();
        const double weight = z[plane], direct = is_free ? ahead[own] : 0.0;
        const double spread = is_free ? inverse[own] : 0.0;
        const double excess = total_of_block(is_free ? direct + weight : 0.0) - 1.0;
        const double all = total_of_block(spread);
        const double raised = all > 0.0 ? excess / all : 0.0, term = raised * spread;
        double way = direct - term;
        if (fabs(way) <= 1e-12 * fmax(fabs(direct), fabs(term))) way = 0.0;
        height += raised;
        const double slope = total_of_block(is_free ? gradient[plane] * way : 0.0);
        const bool ends = is_free && weight + way < 0.0;
        const Least first = least_of_block(ends ? weight / -way : infinity);
        const double step = fmin(first.number, 1.0);
        const int blocking = first.number < 1.0 ? first.thread : -1;
        if (is_free) {
            const double moved = own == blocking ? 0.0 : fmax(weight + step * way, 0.0);
            change[own] = moved - weight;
            z[plane] = moved;
        }
        __syncthreads();
        if (own < m)
            for (int i = 0; i < size; ++i) gradient[own] -= H[free[i] * m + own] * change[i];
        const bool may_enter = own < m && shut[own];
        const Least best = least_of_block(may_enter ? height - gradient[own] : infinity);
        idle = step * slope <= 0.01 * tolerance ? idle + 1 : 0;
        if (blocking >= 0) {
            const int gone = free[blocking], next = own + 1 < size ? free[own + 1] : 0;
            __syncthreads();
            if (own >= blocking && own + 1 < size) free[own] = next;
            if (own == 0) shut[gone] = !(gone == entered && step == 0.0);
            --size;
        } else if (-best.number > tolerance) {
            entered = best.thread;
            if (own == 0) {
                free[size] = entered;
                shut[entered] = false;
            }
            ++size;
        } else {
            break;
        }
        __syncthreads();
    }

    const double sum = total_of_block(own < m ? z[own] : 0.0);
    if (own < m) z[own] /= sum;
    __syncthreads();
    double image = 0.0;
    if (own < m)
        for (int j = 0; j < m; ++j) image += H[j * m + own] * z[j];
    const double linear = total_of_block(own < m ? c[own] * z[own] : 0.0);
    const double value = linear - 0.5 * total_of_block(own < m ? z[own] * image : 0.0);
    const bool reached = value >= before - 1e-12 * linear;
    if (own < m) {
        found[3 + own] = z[own];
        change[own] = reached ? z[own] : start;
    }
    __syncthreads();
    if (own < m) {
        int place = 1;
        for (int j = 0; j < own; ++j) place += change[j] > 0.0;
        if (change[own] > 0.0) {
            chosen[place] = -change[own];
            chosen[m + place] = own;
            ++place;
        }
        if (own == m - 1) chosen[0] = place - 1;
    }
    if (own == 0) {
        found[0] = reached;
        found[1] = value;
        found[2] = height;
    }
}
