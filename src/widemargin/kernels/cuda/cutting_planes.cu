// An iteration of cutting planes: vectors of planes, and a step along a line.
#include "common.cuh"
#include "grid.cuh"
#include "loss.cuh"

// ---- vectors with a number per feature ----

// ahead = end - start; sums of ahead^2, start ahead and start^2.
extern "C" __global__ void way(const double* __restrict__ start, const double* __restrict__ end,
                               double* __restrict__ ahead, integer n, double* partial) {
    double sums[3] = {0.0, 0.0, 0.0};
    #pragma unroll 4
    FOR_EACH_ROW(i, n) {
        const double from = start[i], change = end[i] - from;
        ahead[i] = change;
        sums[0] += change * change;
        sums[1] += from * change;
        sums[2] += from * from;
    }
    leave(sums, partial);
}

// out (n,) = a weighted sum of rows of `vectors`. `chosen` has the number of these rows, their
// weights from place 1 on, and their indices from place 1 + m on.
extern "C" __global__ void weighted_sum(const double* __restrict__ vectors,
                                   const double* __restrict__ chosen, int m, integer n,
                                   double* __restrict__ out) {
    const int count = (int)chosen[0];
    FOR_EACH_ROW(i, n) {
        double sum = 0.0;
        #pragma unroll 8
        for (int j = 0; j < count; ++j)
            sum += chosen[1 + j] * vectors[(integer)chosen[1 + m + j] * n + i];
        out[i] = sum;
    }
}

// partial (parts, m + 1) = the products of `vectors` (m, n), and of v itself, with v, for a part
// of the numbers each. A block takes eight vectors.
extern "C" __global__ void products(const double* __restrict__ vectors,
                                    const double* __restrict__ v, int m, integer n,
                                    double* partial) {
    const integer chunk = (n + gridDim.x - 1) / gridDim.x;
    const integer begin = blockIdx.x * chunk, end = begin + chunk < n ? begin + chunk : n;
    const int first = 8 * blockIdx.y;
    const double* from[8];
    double sums[8];
    #pragma unroll
    for (int k = 0; k < 8; ++k) {
        from[k] = first + k < m ? vectors + (integer)(first + k) * n : v;
        sums[k] = 0.0;
    }
    #pragma unroll 2
    for (integer i = begin + threadIdx.x; i < end; i += blockDim.x) {
        const double factor = v[i];
        #pragma unroll
        for (int k = 0; k < 8; ++k) sums[k] += factor * from[k][i];
    }
    const double sum = block_sum(sums);
    const int place = first + threadIdx.x;
    if (threadIdx.x < 8 && place <= m) partial[blockIdx.x * (integer)(m + 1) + place] = sum;
}

// ---- a step ----

// Finds the step at which  1/2 a step^2 + b step + losses  is lowest on the way from scores S to
// T, or takes `instead` if that is 0. S becomes the scores there. slope is that of the losses at a
// point a little farther on, by `farther` of what is left of the way. lossy has a bit per row:
// whether its slope is not 0. found = step, a, b, c, losses at the step; losses, -r* of the slope
// and rows with a loss at the point farther on. a, b and c are sums over the m rows of `penalty`;
// if a is less than `rounding` c, a and b are zero, and the way is `instead_of_way`, the same for
// all rows.
//
// The function's slope has many small jumps, so it is nearly linear between two steps. Of the next
// steps to be evaluated, some are close to the zero of that line, and others less close, until the
// possible gain between two of them is `enough`, as a fraction of the losses at 0. residual and
// rate are room for the rows' losses along the line. partial has room for twice the blocks' sums:
// those of one round may still be read while those of the next are stored.
extern "C" __global__ void __launch_bounds__(256) margin_walk(
    const signed char* __restrict__ y, const double* __restrict__ cost, double eps, double low,
    double high, double bend, double* __restrict__ S, const double* __restrict__ T, const double* __restrict__ penalty,
    int m, double rounding, double instead_of_way, double guess, double instead, double farther,
    double enough, int rounds, double* __restrict__ residual, double* __restrict__ rate,
    double* __restrict__ slope, unsigned* __restrict__ lossy, integer n, double* partial,
    unsigned* gate, double* found) {
    const Loss loss = loss_of(eps, low, high, bend);
    __shared__ double terms[3];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (warp < 3) {
        double sum = 0.0;
        for (int j = lane; j < m; j += 32) sum += penalty[3 * j + warp];
        for (int away = 16; away > 0; away >>= 1)
            sum += __shfl_down_sync(0xffffffffu, sum, away);
        if (lane == 0) terms[warp] = sum;
    }
    __syncthreads();
    const bool still = terms[0] <= rounding * terms[2];
    const double a = still ? 0.0 : terms[0], b = still ? 0.0 : terms[1];
    const double nearness[4] = {1.0 / 8, 1.0 / 128, 1.0 / 4096, 1.0 / 262144};
    double left = 0.0, right = 2.0 * guess, left_slope = 0.0, right_slope = 0.0, look[8];
    for (int k = 0; k < 8; ++k) look[k] = right * (k / 7.0);
    const integer apart = (integer)gridDim.x * blockDim.x;
    double step = 0.0;
    bool bracketed = false;
    int looks = 0;
    for (int round = 0; round < rounds; ++round) {
        double sums[9], slopes[9];
        #pragma unroll
        for (int k = 0; k < 9; ++k) sums[k] = 0.0;
        for (integer first = (integer)blockIdx.x * blockDim.x + threadIdx.x; first < n;
             first += 4 * apart) {
            double z[4], r[4], c[4];  // four loads at the same time
            #pragma unroll
            for (int q = 0; q < 4; ++q) {
                const integer i = first + q * apart;
                c[q] = i < n ? cost[i] : 0.0;
                if (i >= n) {
                    z[q] = 0.0;
                    r[q] = 0.0;
                } else if (round > 0) {
                    z[q] = residual[i];
                    r[q] = rate[i];
                } else {
                    residual[i] = z[q] = 1.0 - y[i] * S[i];
                    rate[i] = r[q] = -y[i] * (still ? instead_of_way : T[i] - S[i]);
                }
            }
            #pragma unroll
            for (int q = 0; q < 4; ++q) {
                if (round == 0) {
                    const double excess = beyond(loss, z[q]), a = slope_at(loss, excess);
                    sums[8] += c[q] * a * (excess - 0.5 * bend * a);
                }
                const double pull = c[q] * r[q];
                #pragma unroll
                for (int k = 0; k < 8; ++k)
                    sums[k] += pull * slope_at(loss, beyond(loss, z[q] + look[k] * r[q]));
            }
        }
        all_sums(sums, partial + (looks++ & 1) * gridDim.x * 9, gate, slopes);
        if (round == 0) enough *= slopes[8];
        for (int k = 0; k < 8; ++k) slopes[k] += b + a * look[k];
        if (round == 0 && slopes[0] >= 0.0) break;  // 0 is the minimum
        for (int k = 0; k < 8; ++k) {
            if (slopes[k] >= 0.0) {
                right = look[k];
                right_slope = slopes[k];
                bracketed = true;
                break;
            }
            left = look[k];
            left_slope = slopes[k];
        }
        if (!bracketed) {
            right = 4.0 * left;
            step = left;
            for (int k = 0; k < 8; ++k) look[k] = left + (right - left) * ((k + 1) / 8.0);
            continue;
        }
        // An upper bound on what is left to gain: where the tangents at both ends cross.
        const double width = right - left, fraction = -left_slope / (right_slope - left_slope);
        step = left + width * fraction;
        if (width * fraction * right_slope <= enough) break;
        for (int k = 0; k < 8; ++k) {
            const double away = k < 4 ? -nearness[k] : nearness[7 - k];
            look[k] = left + width * fmin(fmax(fraction + away, 0.0), 1.0);
        }
    }
    if (step == 0.0) step = instead;
    farther *= 1.0 - step;
    double sums[4] = {0.0, 0.0, 0.0, 0.0}, total[4];
    for (integer first = (integer)blockIdx.x * blockDim.x + threadIdx.x; first - lane < n;
         first += 4 * apart) {
        double here[4], ahead[4], label[4], weight[4];
        #pragma unroll
        for (int q = 0; q < 4; ++q) {
            const integer i = first + q * apart < n ? first + q * apart : n - 1;
            here[q] = S[i];
            ahead[q] = still ? instead_of_way : T[i] - here[q];
            label[q] = y[i];
            weight[q] = cost[i];
        }
        #pragma unroll
        for (int q = 0; q < 4; ++q) {
            const integer i = first + q * apart;
            here[q] += step * ahead[q];
            const Cut now = cut_of(label[q], weight[q], loss, here[q]);
            const Cut later = cut_of(label[q], weight[q], loss, here[q] + farther * ahead[q]);
            const unsigned bits = __ballot_sync(0xffffffffu, i < n && later.slope != 0.0);
            // In the order of NumPy's packbits: the first of eight rows is the highest bit.
            if (lane == 0 && i < n) lossy[i / 32] = __byte_perm(__brev(bits), 0, 0x0123);
            if (i >= n) continue;
            S[i] = here[q];
            slope[i] = later.slope;
            sums[0] += now.loss;
            sums[1] += later.loss;
            sums[2] += later.height;
            sums[3] += later.on;
        }
    }
    all_sums(sums, partial + (looks & 1) * gridDim.x * 9, gate, total);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        const double all[8] = {step, a, b, terms[2], total[0], total[1], total[2], total[3]};
        for (int k = 0; k < 8; ++k) found[k] = all[k];
    }
}
