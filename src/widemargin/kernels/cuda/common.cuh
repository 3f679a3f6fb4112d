// Used by all kernels: kernels/cuda_source.py puts it into the sources that include it.
// Sums have a fixed order, or are sums of integers, so that the same input gives the same bits.

typedef long long integer;

// Returns the sum of numbers k of all threads of a block to thread k, in a fixed order.
template <int K> __device__ double block_sum(double (&sums)[K]) {
    __shared__ double of_warp[K][33];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int k = 0; k < K; ++k)
        for (int away = 16; away > 0; away >>= 1)
            sums[k] += __shfl_down_sync(0xffffffffu, sums[k], away);
    if (lane == 0)
        for (int k = 0; k < K; ++k) of_warp[k][warp] = sums[k];
    __syncthreads();
    double sum = 0.0;
    if (threadIdx.x < K)
        for (int w = 0; w < (int)(blockDim.x >> 5); ++w) sum += of_warp[threadIdx.x][w];
    return sum;
}

template <int K> __device__ void leave(double (&sums)[K], double* partial) {
    const double sum = block_sum(sums);
    if (threadIdx.x < K) partial[(integer)blockIdx.x * K + threadIdx.x] = sum;
}

#define FOR_EACH_ROW(i, n)                                                   \
    for (integer i = (integer)blockIdx.x * blockDim.x + threadIdx.x; i < n;  \
         i += (integer)gridDim.x * blockDim.x)
