// Passes over vectors, as the kernels of the same names in kernels/*.py.
#include "common.cuh"
#include "grid.cuh"
#include "loss.cuh"

extern "C" __global__ void margin_cut(const signed char* y, const double* cost, double eps,
                                      double low, double high, double bend, const double* S,
                                      double* slope, integer n, double* partial) {
    const Loss loss = loss_of(eps, low, high, bend);
    double sums[3] = {0.0, 0.0, 0.0};
    FOR_EACH_ROW(i, n) {
        const Cut cut = cut_of(y[i], cost[i], loss, S[i]);
        sums[0] += cut.loss;
        sums[1] += cut.height;
        sums[2] += cut.on;
        slope[i] = cut.slope;
    }
    leave(sums, partial);
}

extern "C" __global__ void margin_rates(const signed char* y, const double* S, const double* D,
                                        double* residual, double* rate, integer n) {
    FOR_EACH_ROW(i, n) {
        residual[i] = 1.0 - y[i] * S[i];
        rate[i] = -y[i] * D[i];
    }
}

#define STEPS 8  // as in cuda.py

// Four sums for each step but the last one: value, slope, curvature, and how many rows are on
// another piece at the next step. Steps are passed by value: a copy would take longer than the
// sums.
extern "C" __global__ void margin_sums(const double* residual, const double* rate,
                                       const double* cost, double eps, double low, double high,
                                       double bend, double s0, double s1, double s2, double s3,
                                       double s4, double s5, double s6, double s7, double s8,
                                       integer n, double* partial) {
    const Loss loss = loss_of(eps, low, high, bend);
    const double step[STEPS + 1] = {s0, s1, s2, s3, s4, s5, s6, s7, s8};
    double sums[4 * STEPS];
    #pragma unroll
    for (int k = 0; k < 4 * STEPS; ++k) sums[k] = 0.0;
    FOR_EACH_ROW(i, n) {
        const double r = rate[i], c = cost[i];
        double z = residual[i] + step[0] * r;
        int piece = piece_at(loss, z);
        #pragma unroll
        for (int s = 0; s < STEPS; ++s) {
            const double excess = beyond(loss, z), a = slope_at(loss, excess);
            sums[4 * s] += c * a * (excess - 0.5 * bend * a);
            sums[4 * s + 1] += c * a * r;
            sums[4 * s + 2] += c * r * r * curvature_at(loss, excess);
            const int before = piece;
            z = residual[i] + step[s + 1] * r;
            piece = piece_at(loss, z);
            sums[4 * s + 3] += before != piece;
        }
    }
    leave(sums, partial);
}

extern "C" __global__ void advance(double* S, double* D, double step, double beyond, integer n) {
    FOR_EACH_ROW(i, n) {
        const double here = S[i] + step * D[i];
        D[i] = here + beyond * D[i];
        S[i] = here;
    }
}

extern "C" __global__ void rates(const signed char* y, const double* change, double shift,
                                 double* rate, integer n) {
    FOR_EACH_ROW(i, n) { rate[i] = -y[i] * (change[i] + shift); }
}

// As `lowest` in passes/cpu.py; found = step, curvature. partial has room for twice the blocks'
// sums: those of one trial may still be read while those of the next are stored.
extern "C" __global__ void __launch_bounds__(256) lowest(
    const double* z, const double* rate, const double* cost, double eps, double least_slope,
    double most_slope, double bend, double slope, double curvature, double guess,
    double slope_left, double rounding, int trials, integer n, double* partial, unsigned* gate,
    double* found) {
    const Loss loss = loss_of(eps, least_slope, most_slope, bend);
    const double infinity = __longlong_as_double(0x7ff0000000000000LL);
    const integer apart = (integer)gridDim.x * blockDim.x;
    double low = -infinity, high = infinity, step = slope_left > 0.0 ? 0.0 : guess;
    double enough = 0.0, curved = curvature;
    for (int trial = slope_left > 0.0 ? -1 : 0; trial < trials; ++trial) {
        double sums[3] = {0.0, 0.0, 0.0}, total[3];
        for (integer first = (integer)blockIdx.x * blockDim.x + threadIdx.x; first < n;
             first += 4 * apart) {
            double at[4], r[4], c[4];  // four loads at the same time
            #pragma unroll
            for (int m = 0; m < 4; ++m) {
                const integer i = first + m * apart;
                at[m] = i < n ? z[i] : 0.0;
                r[m] = i < n ? rate[i] : 0.0;
                c[m] = i < n ? cost[i] : 0.0;
            }
            #pragma unroll
            for (int m = 0; m < 4; ++m) {
                const double excess = beyond(loss, at[m] + step * r[m]), pull = c[m] * r[m];
                const double term = pull * slope_at(loss, excess);
                sums[0] += term;
                sums[1] += pull * r[m] * curvature_at(loss, excess);
                sums[2] += fabs(term);
            }
        }
        all_sums(sums, partial + (trial & 1) * gridDim.x * 3, gate, total);
        const double here = total[0] + slope + curvature * step;
        const double terms = total[2] + fabs(slope) + fabs(curvature * step);
        if (trial < 0) {
            if (here >= -rounding * terms) break;
            low = 0.0;
            enough = slope_left * fabs(here);
            step = guess;
            continue;
        }
        curved = total[1] + curvature;
        if (fabs(here) <= fmax(enough, rounding * terms)) break;
        if (here < 0.0) low = step; else high = step;
        double next = curved > 0.0 ? step - here / curved : infinity;
        if (!(low < next && next < high)) {
            if (low == -infinity) next = high - fmax(1.0, fabs(high));
            else if (high == infinity) next = low + fmax(1.0, 3.0 * fabs(low));
            else next = 0.5 * (low + high);
        }
        if (next == low || next == high) break;
        step = next;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        found[0] = step;
        found[1] = curved;
    }
}

extern "C" __global__ void curvature(const double* z, const double* cost, double eps, double low,
                                     double high, double bend, double* weight, integer n,
                                     double* partial) {
    const Loss loss = loss_of(eps, low, high, bend);
    double sums[2] = {0.0, 0.0};
    FOR_EACH_ROW(i, n) {
        const double steep = curvature_at(loss, beyond(loss, z[i])), k = cost[i] * steep;
        weight[i] = k;
        sums[0] += steep > 0.0;
        sums[1] += k;
    }
    leave(sums, partial);
}

// found = the rows of nonzero weight, in order. A block takes a chunk of the rows; counts has a
// number for each block.
extern "C" __global__ void __launch_bounds__(256) places(const double* weight, integer* found,
                                                         integer n, double* counts,
                                                         unsigned* gate, double*) {
    __shared__ int of_warp[8];
    __shared__ integer before_block;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const integer chunk = (n + gridDim.x - 1) / gridDim.x;
    const integer begin = blockIdx.x * chunk, end = begin + chunk < n ? begin + chunk : n;
    double mine[1] = {0.0};
    for (integer i = begin + threadIdx.x; i < end; i += blockDim.x) mine[0] += weight[i] != 0.0;
    leave(mine, counts);
    meet(gate);
    if (threadIdx.x < 32) {
        double earlier = 0.0;
        for (int j = lane; j < (int)blockIdx.x; j += 32) earlier += ((volatile double*)counts)[j];
        for (int away = 16; away > 0; away >>= 1)
            earlier += __shfl_down_sync(0xffffffffu, earlier, away);
        if (lane == 0) before_block = (integer)earlier;
    }
    __syncthreads();
    integer place = before_block;
    for (integer first = begin; first < end; first += blockDim.x) {
        const integer i = first + threadIdx.x;
        const bool there = i < end && weight[i] != 0.0;
        const unsigned with_me = __ballot_sync(0xffffffffu, there);
        if (lane == 0) of_warp[warp] = __popc(with_me);
        __syncthreads();
        integer before = place + __popc(with_me & ((1u << lane) - 1u));
        for (int w = 0; w < 8; ++w) {
            before += w < warp ? of_warp[w] : 0;
            place += of_warp[w];
        }
        if (there) found[before] = i;
        __syncthreads();
    }
}

extern "C" __global__ void dual_point(const double* z, const signed char* y, const double* cost,
                                      double eps, double low, double high, double wide,
                                      double bend, double* A, integer n, double* partial) {
    const Loss smooth = loss_of(eps, low, high, wide), loss = loss_of(eps, low, high, bend);
    double sums[8] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
    FOR_EACH_ROW(i, n) {
        const double excess = beyond(loss, z[i]), a = slope_at(smooth, excess);
        const double own = slope_at(loss, excess), alpha = cost[i] * a, pull = alpha * y[i];
        const double height = alpha - eps * fabs(alpha), bent = 0.5 * bend * a * alpha;
        const bool above = pull > 0.0;
        sums[0] += fmax(pull, 0.0);
        sums[1] -= fmin(pull, 0.0);
        sums[2] += above ? height : 0.0;
        sums[3] += above ? 0.0 : height;
        sums[4] += above ? bent : 0.0;
        sums[5] += above ? 0.0 : bent;
        sums[6] += cost[i] * own * (excess - 0.5 * bend * own);
        sums[7] += alpha * excess;
        A[i] = pull;
    }
    leave(sums, partial);
}
